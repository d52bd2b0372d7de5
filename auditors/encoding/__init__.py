"""Outputs of any type as numbers: what is in an output, leaf by leaf. Imports `mechanisms` alone."""
