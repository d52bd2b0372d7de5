"""Mechanisms of other people's libraries, run in worker processes of their own interpreters. May import the terms and the domains."""

from dpwitness.mechanisms.foreign.target import Target

__all__ = ["Target"]
