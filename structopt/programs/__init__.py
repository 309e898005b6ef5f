"""Convex programs other than label spaces: subproblems of trainers and of conditional risks."""
