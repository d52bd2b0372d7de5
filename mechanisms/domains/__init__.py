"""What datasets a mechanism accepts and which of them are neighbours: one file a domain, with all that a search for pairs asks of it.

A new domain is a file here and a line below. May import the terms of `mechanisms`, nothing that audits.
"""

import dataclasses

from dpwitness.mechanisms.domains.answers import Answers
from dpwitness.mechanisms.domains.base import Domain
from dpwitness.mechanisms.domains.costs import Costs
from dpwitness.mechanisms.domains.counts import Counts
from dpwitness.mechanisms.domains.frames import Events, Table
from dpwitness.mechanisms.domains.graphs import Graph
from dpwitness.mechanisms.domains.labelled_ball import LabelledBall
from dpwitness.mechanisms.domains.own import Relation
from dpwitness.mechanisms.domains.records import Records
from dpwitness.mechanisms.domains.rows import Rows
from dpwitness.mechanisms.domains.texts import Texts

# Those that a target file may name, with their fields as keys: Relation holds functions.
KINDS: dict[str, type[Domain]] = {
    cls.__name__: cls for cls in (Records, Rows, Table, Events, Texts, Graph, Answers, Counts, LabelledBall, Costs)
}


def keys_of(kind: type[Domain]) -> dict[str, str]:
    """The keys of a domain, each with its type and its default, as they are printed."""
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
