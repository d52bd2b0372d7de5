"""Hostile inputs: what they are, and the campaign that tries them. May import all but the commands."""
