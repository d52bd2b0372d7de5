"""Results of audits, and the JSON format of witnesses.

This package may import the privacy loss and all packages below.
"""
