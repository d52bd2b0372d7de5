"""The pair of neighbouring datasets that betrays most: catalogue, search, lattice, simplifier. A domain's own part lies with the domain."""
