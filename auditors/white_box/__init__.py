"""White-box certification: bounds on the privacy profile of a pair from the density of its outputs.

This package may import pairs, proofs and all packages below.
"""
