"""Benchmarks of rounds per second, scaling over workers, long audits and slow targets. May import
everything except the commands.
"""
