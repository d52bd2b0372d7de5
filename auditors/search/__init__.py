"""Search for the neighboring pair with the largest privacy loss: catalog, optimizer, lattice,
simplifier.

Each domain defines its own catalog, random pairs and lattice; see `core/domains`.
"""
