"""Compiled solvers, loss functions, noise laws and output kernels. May import core terms and domains."""
