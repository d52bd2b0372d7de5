"""Encoding of outputs of any type as rows of numbers, leaf by leaf. Imports only `mechanisms`."""
