"""Algorithms of the audited papers, as printed and repaired, one per file, with compiled kernels,
datasets and a zoo. May import what the textbook mechanisms may import.
"""
