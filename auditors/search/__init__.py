"""Search for the neighboring pair with the largest privacy loss: catalog, optimizer, random
changes, simplifier.

Each domain defines its own catalog, random pairs and coordinates; see `core/domains`.
"""
