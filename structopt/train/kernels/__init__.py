"""Compiled loops of the trainers."""
