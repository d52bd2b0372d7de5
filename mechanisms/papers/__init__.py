"""Algorithms of the audited papers, as printed and repaired, one per file.

Compiled kernels, datasets and a zoo belong to them. May import the same packages as
the textbook mechanisms.
"""
