"""Small faults, by area. `base` has their registry; `patches` changes source text, the others change public seams."""
