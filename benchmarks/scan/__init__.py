"""Benchmark of `dpwitness scan` over 20 packages, and the mechanisms that a reader of each package
lists.
"""
