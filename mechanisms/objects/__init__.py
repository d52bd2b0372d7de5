"""Objects as people have them, as mechanisms: functions of one run, stateful classes, estimators, interactive sessions.

Stands alone (standard library and NumPy, Python 3.8 or later): in an interpreter without dpwitness, whose target file says
``import dpwitness``, the worker lets this folder stand for it (`mechanisms/foreign/inside/worker`).
"""

from .adversaries import Adversary
from .estimators import from_estimator
from .runs import fresh, one_run
from .sessions import Session, interactive

__all__ = ["Adversary", "Session", "fresh", "from_estimator", "interactive", "one_run"]
