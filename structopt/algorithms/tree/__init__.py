"""Labels of trees: the best leaf, sets of leaves, closures."""
