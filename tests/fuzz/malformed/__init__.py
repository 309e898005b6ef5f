"""Malformed calls: recipes of valid ones, what to put in place of an argument, and how to judge what happens."""
