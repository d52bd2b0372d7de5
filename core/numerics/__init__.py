"""Compiled solvers, loss functions, noise laws and output kernels. May import core, data, privacy,
protocols and domains.
"""
