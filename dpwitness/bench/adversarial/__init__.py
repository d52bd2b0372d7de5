"""Benchmark of randomized attacks on the auditor's own statements: each attack counts how often a statement is wrong.

One file per family of attacks. May import all that `dpwitness.bench` may. Only the registry of benchmarks imports this package.
"""
