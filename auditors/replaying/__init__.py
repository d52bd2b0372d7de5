"""Replay of witnesses: the recorded violation is tested again with fresh randomness.

This package may import every audit.
"""
