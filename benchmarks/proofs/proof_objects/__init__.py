"""Proof objects of claims over boxes, and their checker, which uses intervals of its own instead of
flint.
"""
