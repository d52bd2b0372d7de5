"""Comparison of two reports, and accepted findings. May import the report."""
