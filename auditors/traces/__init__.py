"""Traces: noise recorded on one dataset and replayed on its neighbor, findings, and the composed
privacy loss.
"""
