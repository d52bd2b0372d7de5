"""Domains of datasets: which datasets a mechanism accepts, which of them are neighbors, and the
search for the worst pair.
"""

from dpwitness.auditors.search.search import search
from dpwitness.mechanisms import (
    Answers,
    Costs,
    Counts,
    Domain,
    Events,
    Graph,
    LabelledBall,
    Records,
    Relation,
    Rows,
    Table,
    Texts,
)

__all__ = [
    "Answers",
    "Costs",
    "Counts",
    "Domain",
    "Events",
    "Graph",
    "LabelledBall",
    "Records",
    "Relation",
    "Rows",
    "Table",
    "Texts",
    "search",
]
