"""Checks of other people's mechanisms, chosen by what an object offers. May import the audits."""
