"""Last steps of an audit: comparison of a violation with fresh runs, and hints on the declaration
of the domain.
"""
