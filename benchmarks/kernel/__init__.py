"""Benchmark of the kernel: mutants of the checker, forged witnesses, and the published
witnesses.
"""
