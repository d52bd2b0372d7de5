"""Benchmarks of rounds per second, of scaling over workers, and of long audits. May import everything except the commands."""
