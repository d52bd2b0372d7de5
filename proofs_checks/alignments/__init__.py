"""Proofs that loop programs with Laplace or exponential noise are private, by randomness alignments
found in the program's text.
"""
