"""Domains: the datasets that a mechanism accepts, and which of them are neighbors. One file per domain, with its search for pairs.

To add a domain, write a file here and add a line below. May import the terms of `mechanisms`, and
no auditor.
"""

import dataclasses

from dpwitness.mechanisms.domains.answers import Answers
from dpwitness.mechanisms.domains.base import Domain
from dpwitness.mechanisms.domains.costs import Costs
from dpwitness.mechanisms.domains.counts import Counts
from dpwitness.mechanisms.domains.frames import Events, Table
from dpwitness.mechanisms.domains.graphs import Graph
from dpwitness.mechanisms.domains.labelled_ball import LabelledBall
from dpwitness.mechanisms.domains.records import Records
from dpwitness.mechanisms.domains.rows import Rows
from dpwitness.mechanisms.domains.texts import Texts
from dpwitness.mechanisms.domains.user_defined import Relation

# Domains that a target file may name, with their fields as keys. Relation is excluded since it holds functions.
KINDS: dict[str, type[Domain]] = {
    cls.__name__: cls for cls in (Records, Rows, Table, Events, Texts, Graph, Answers, Counts, LabelledBall, Costs)
}


def field_texts(kind: type[Domain]) -> dict[str, str]:
    """Return the keys of a domain class, each with its type and default as text."""
    return {
        f.name: str(f.type) + ("" if f.default is dataclasses.MISSING else f" = {f.default!r}")
        for f in dataclasses.fields(kind)  # type: ignore[arg-type]
        if f.init
    }


__all__ = [
    "KINDS",
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
]
