"""Combinatorial algorithms: one file or folder each, with its compiled kernels beside the class that uses them."""
