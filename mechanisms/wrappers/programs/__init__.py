"""Mechanisms of other libraries and programs, run in separate worker processes. May import all
other folders of mechanisms.
"""

from dpwitness.mechanisms.wrappers.programs.target import Target

__all__ = ["Target"]
