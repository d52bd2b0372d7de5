"""Metamorphic audits: relations between several runs that hold for every private mechanism, so that
no reference output is needed.

Each relation is a function of a subject and of cases, which are tuples of inputs; a replay calls it
with the recorded case.
"""
