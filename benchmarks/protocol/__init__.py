"""The audit protocol for programs in other languages: a check of conformance, test vectors, and
shims.
"""
