"""Sensitivity and utility, measured against their bounds. May import pairs and results."""
