"""Protocols of a mechanism and of its optional capabilities. May import `privacy` and all below."""
