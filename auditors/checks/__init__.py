"""Checks of user-written mechanisms, chosen by what an object offers. May import the audits."""
