"""Audits of sensitivity and utility: measurements against claimed bounds. May import pairs and
results.
"""
