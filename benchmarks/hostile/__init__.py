"""Hostile inputs and the fuzz campaign that runs them. May import everything except the
commands.
"""
