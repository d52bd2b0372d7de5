"""Bounds on the privacy profile of a pair, proved by ball arithmetic.

This package may import the results and the privacy loss.
"""
