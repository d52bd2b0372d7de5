"""Encoding of outputs as numbers, guess rules (events) as data, and learning of events. May import
encoding, statistics and targets.
"""
