"""One file per solver behind one protocol."""
