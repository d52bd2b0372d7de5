"""Benchmarks of rounds per second, of scaling over workers, of long audits, and of slow targets. May import everything except the commands."""
