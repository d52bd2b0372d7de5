"""A pair enclosed from the density of its outputs. May import pairs, proofs and all below."""
