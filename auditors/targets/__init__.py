"""Targets: mechanisms named in files. How they are located, rebuilt, and allowed to run.

This package imports only the mechanisms.
"""
