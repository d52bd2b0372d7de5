"""Attacks on the honesty of this program, with random parameters in every run: each counts how often the program fails.

One file per family of attacks. May import all that `dpwitness.bench` may; nothing imports this folder but the registry of benchmarks.
"""
