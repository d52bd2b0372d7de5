"""Drivers of other auditing tools: each runs in the interpreter that has its tool, and follows the
documentation of the tool.
"""
