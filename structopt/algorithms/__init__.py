"""Combinatorial algorithms, one file or folder each, with the compiled kernels next to the class that uses them."""
