"""Audits of functions without a sampler of their own: sensitivity, utility, stability, accountants
and metamorphic relations.
"""
