"""Kernel: checkers of witnesses and of proof objects that use the standard library only, and the
proof that the first is right.
"""
