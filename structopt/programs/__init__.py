"""Convex programs that are no label space: the subproblems of trainers and of conditional risks."""
