"""Stability audit: a search for inputs whose outputs are further apart than the stability map
allows. May import results and targets.
"""
