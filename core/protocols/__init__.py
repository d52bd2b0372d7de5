"""Protocols of a mechanism and its optional methods."""
