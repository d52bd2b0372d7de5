"""Adapters that turn Python objects into mechanisms: functions of one run, stateful classes,
estimators, interactive sessions.

Needs only the standard library and NumPy, Python 3.8 or later. In an interpreter without dpwitness,
whose target file says ``import dpwitness``, the worker imports this folder in its place, also as
``dpwitness.wrap`` (`mechanisms/wrappers/programs/inside/worker`).
"""

from .sessions import Adversary, Session, interactive
from .single_runs import fresh, from_estimator, one_run

__all__ = ["Adversary", "Session", "fresh", "from_estimator", "interactive", "one_run"]
