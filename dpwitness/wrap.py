"""Mechanisms from functions, objects, estimators, interactive sessions and database queries."""

from dpwitness.auditors.search.adversaries import FoundAdversary, find_adversary
from dpwitness.core.numerics.draws import Draws
from dpwitness.mechanisms.wrappers.programs.sql import Query
from dpwitness.mechanisms.wrappers.sessions import Adversary, Session, interactive
from dpwitness.mechanisms.wrappers.single_runs import fresh, from_estimator, one_run

__all__ = [
    "Adversary",
    "Draws",
    "FoundAdversary",
    "Query",
    "Session",
    "find_adversary",
    "fresh",
    "from_estimator",
    "interactive",
    "one_run",
]
