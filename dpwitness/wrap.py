"""Mechanisms from functions, objects, estimators, interactive sessions and database queries."""

from dpwitness.auditors.pairs.adversaries import FoundAdversary, find_adversary
from dpwitness.mechanisms.foreign.sql import Query
from dpwitness.mechanisms.numerics.draws import Draws
from dpwitness.mechanisms.objects.adversaries import Adversary
from dpwitness.mechanisms.objects.estimators import from_estimator
from dpwitness.mechanisms.objects.sessions import Session, interactive
from dpwitness.mechanisms.objects.single_runs import fresh, one_run

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
