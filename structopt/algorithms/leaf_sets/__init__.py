"""Sets of leaves in a directed acyclic graph: sweeps that find a label and its proof."""
