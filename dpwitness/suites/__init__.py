"""Suites: many audits under one name, their verdicts held against what is known of each mechanism. A new suite is a line in `SUITES`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dpwitness.mechanisms.terms.reading import Json
from dpwitness.mechanisms.terms.validation import InvalidArgument
from dpwitness.suites.case import Case, Outcome, Suite, compare, run_case
from dpwitness.suites.claims import run_all

__all__ = ["SUITES", "Case", "Outcome", "Suite", "compare", "run_all", "run_case", "suite", "suite_of"]


def _zoo() -> list[Case]:
    from dpwitness.mechanisms.textbook.zoo import zoo

    more = {"gaussian-0.8": 8_000_000}  # a violation near the limit of two million runs at this confidence
    return [Case(name, mechanism, truth=mechanism.truth, trials=more.get(name)) for name, mechanism in zoo().items()]


def _papers() -> list[Case]:
    from dpwitness.mechanisms.papers.paper_zoo import paper_zoo

    found = []
    for name, specimen in paper_zoo().items():
        it, truth = specimen.mechanism, specimen.mechanism.truth
        more: dict[str, Any] = {"truth": truth, "settled": specimen.settled, "bits": False, "white_box": True}
        found.append(Case(name, it, pairs=specimen.pairs, trials=specimen.trials, **more))
    return found


def _third_party() -> list[Case]:
    from dpwitness.suites.third_party import cases

    return list(cases())


def _third_party_page(results: list[Json], missing: dict[str, str], folder: Path) -> None:
    from dpwitness.reports.third_party.page import publish

    publish(results, missing, folder)


def _papers_page(_: list[Json], __: dict[str, str], folder: Path) -> None:
    """The claims of the papers belong to their algorithms: all are checked, and their page is written beside the audits."""
    from dpwitness.reports.papers.claims_page import write

    write(list(run_all(seconds=60.0, quick=False, seed=0)), folder)


SUITES: dict[str, Suite] = {
    "zoo": Suite("zoo", "mechanisms, right and wrong, whose true privacy is known; pairs found by the pilot", _zoo, 2_000_000),
    "papers": Suite(
        "papers",
        "the papers' algorithms, printed and repaired, on their worst pairs; exact losses next to the bounds",
        _papers,
        200_000,
        page=_papers_page,
    ),
    "third-party": Suite(
        "third-party",
        "libraries by others, each in its own interpreter; pairs from the declared domains",
        _third_party,
        200_000,
        page=_third_party_page,
    ),
}


def suite_of(name: str) -> Suite:
    """The suite of that name. Raises InvalidArgument, with the names there are, if there is none."""
    if name not in SUITES:
        raise InvalidArgument(f"suite must be one of {', '.join(SUITES)}, got {name!r}")
    return SUITES[name]


def suite(name: str) -> list[Case]:
    """The cases of a suite.

    Examples
    --------
    >>> from dpwitness.expressions import matches
    >>> [case.name for case in suite("zoo") if matches("svt and not broken", case.name)]
    ['svt1', 'svt2', 'svt3', 'svt4', 'svt5', 'svt6']
    """
    return suite_of(name).cases()
