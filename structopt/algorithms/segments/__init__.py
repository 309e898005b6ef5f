"""Sequences cut into segments of one state each: semi-Markov Viterbi."""
