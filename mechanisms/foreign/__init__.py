"""Mechanisms of other libraries and programs, run in separate worker processes. May import `terms` and `domains`."""

from dpwitness.mechanisms.foreign.target import Target

__all__ = ["Target"]
