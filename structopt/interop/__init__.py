"""Exchange with other modelling tools: Pyomo, PuLP, and MPS and LP files."""
