"""Protocols of a mechanism and of its optional capabilities."""
