"""Confidence limits, hypothesis tests and p-values at a stated error, and the regression that fits
events.

This package imports only the mechanisms.
"""
