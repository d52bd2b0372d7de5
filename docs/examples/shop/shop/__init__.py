"""A shop: statistics of its orders."""
