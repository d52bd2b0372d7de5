"""A module whose name a function hides."""


def shadow(values):
    """Return the values."""
    return values
