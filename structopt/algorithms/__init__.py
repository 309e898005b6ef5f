"""Combinatorial algorithms, one file or folder each, with the compiled kernels beside the class that uses them."""
