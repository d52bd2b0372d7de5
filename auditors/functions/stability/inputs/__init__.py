"""Inputs of stability audits: element types, input spaces, and datasets at known distances from
each other.
"""
