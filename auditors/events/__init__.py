"""Outputs as numbers, guess rules (events) as data, and how events are learned."""
