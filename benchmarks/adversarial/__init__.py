"""Benchmark of randomized attacks on the auditor's own statements: each attack counts how often a
statement is wrong.

One file per family of attacks. An attack function runs once and returns a description of the
failure, or "" if there is none. May import all that `dpwitness.benchmarks` may. Only the registry
of benchmarks imports this package.
"""
