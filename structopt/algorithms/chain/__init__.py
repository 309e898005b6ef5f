"""Chains of states: Viterbi, the k best, sums and the loss-indexed Pareto front."""
