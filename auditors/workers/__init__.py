"""Rounds in chunks on any executor: counting, checks of fitness and independence; targets that
files name, and their trust.
"""
