"""Benchmarks of scaling over workers, long audits and slow targets. May import everything except the
commands.
"""
