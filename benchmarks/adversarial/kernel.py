"""Attacks on the kernel: witnesses that are mutated and sealed again, or forged."""

from __future__ import annotations

from dpwitness.benchmarks.adversarial.attack import Attack
from dpwitness.benchmarks.kernel.fuzzer import fuzz

ATTACKS = (Attack("50 witnesses, mutated or forged, that the kernel may accept", fuzz, runs=1000),)
