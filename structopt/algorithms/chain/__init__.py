"""Chains of states: Viterbi, the k best, sums and the front by loss."""
