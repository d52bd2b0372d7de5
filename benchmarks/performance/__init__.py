"""Benchmarks of scaling over workers, long audits and slow targets."""
