"""Suites of audits whose verdicts are compared with the known truth about each mechanism. A new
suite is an entry of `SUITES`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from dpwitness.clone import from_clone, is_clone
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.suites.case import Case, Outcome, Suite, compare, run_case

__all__ = [
    "SUITES",
    "Case",
    "Outcome",
    "Suite",
    "compare",
    "run_all",
    "run_case",
    "suite",
    "suite_of",
]


def _zoo() -> list[Case]:
    from dpwitness.mechanisms.textbook.zoo import zoo

    # two million runs at this confidence barely detect its violation
    more = {"gaussian-0.8": 8_000_000}
    return [
        Case(name, mechanism, truth=mechanism.truth, trials=more.get(name))
        for name, mechanism in zoo().items()
    ]


def _papers() -> list[Case]:
    from dpwitness.mechanisms.textbook.zoo import paper_zoo

    return [
        Case(
            name,
            specimen.mechanism,
            pairs=specimen.pairs,
            truth=specimen.mechanism.truth,
            settled=specimen.settled,
            bits=False,
            trials=specimen.trials,
            white_box=True,
        )
        for name, specimen in paper_zoo().items()
    ]


def _papers_page(_: list[Json], __: dict[str, str], folder: Path) -> None:
    """Check all claims of the papers, and write their page next to the audits; in a clone, which
    has the page's builder.
    """
    if is_clone():
        page = from_clone("pages.papers.claims_page", "the page of the papers")
        page.write(list(run_all(seconds=60.0, quick=False, seed=0)), folder)


def _third_party() -> Any:
    return from_clone("libraries.suite", "the suite third-party")


SUITES: dict[str, Suite] = {
    "zoo": Suite(
        "zoo",
        "correct and broken mechanisms with known true privacy; a pilot selects the pairs",
        _zoo,
        2_000_000,
    ),
    "papers": Suite(
        "papers",
        "the papers' algorithms, as printed and repaired, on their worst pairs; with exact "
        "privacy losses",
        _papers,
        200_000,
        page=_papers_page,
    ),
    "third-party": Suite(
        "third-party",
        "third-party libraries, each in its own interpreter; pairs from the declared domains",
        lambda: list(_third_party().cases()),
        200_000,
        page=lambda *rows: _third_party().write_rows(*rows),
    ),
}


def suite_of(name: str) -> Suite:
    """Return the suite with the given name.

    Parameters
    ----------
    name : {"zoo", "papers", "third-party"}
        Name of the suite.

    Returns
    -------
    Suite
        Cases, with the defaults of their audits.

    Raises
    ------
    InvalidArgument
        If there is no suite of this name; the message lists the names.
    """
    if name not in SUITES:
        raise InvalidArgument(f"suite must be one of {', '.join(SUITES)}, got {name!r}")
    return SUITES[name]


def suite(name: str) -> list[Case]:
    """Return the cases of a suite.

    Parameters
    ----------
    name : {"zoo", "papers", "third-party"}
        Name of the suite.

    Returns
    -------
    list of Case
        One case per mechanism.

    Raises
    ------
    InvalidArgument
        If there is no suite of this name.

    Examples
    --------
    >>> from dpwitness.option_values.parsers import matches
    >>> [case.name for case in suite("zoo") if matches("svt and not broken", case.name)]
    ['svt1', 'svt2', 'svt3', 'svt4', 'svt5', 'svt6']
    """
    return suite_of(name).cases()


def run_all(*, seconds: float, quick: bool, seed: int, workers: int = 1) -> Iterator[Json]:
    """Check every claim of the ledger in order, and yield each finding as JSON with its witness
    under ``"witness"``.

    Parameters
    ----------
    seconds : float
        Time limit of one check. A check that reaches the limit is INCONCLUSIVE.
    quick : bool
        Whether to use fewer runs and cells.
    seed : int
        Seed of audits and searches.
    workers : int
        Number of processes.

    Yields
    ------
    dict
        Finding of one claim.

    Raises
    ------
    InvalidArgument
        If the time limit or the seed is invalid.
    """
    from dpwitness.executors.pools import pool
    from dpwitness.proofs_checks import declarations

    run = partial(_check_claim, seconds=seconds, quick=quick, seed=seed)
    if workers == 1:
        yield from map(run, declarations())
        return
    with pool(workers) as executor:
        yield from executor.map(run, declarations())


def _check_claim(id: str, *, seconds: float, quick: bool, seed: int) -> Json:
    from dpwitness.proofs_checks import check

    found = check(id, seconds=seconds, quick=quick, seed=seed)
    return found.to_json() | {"witness": found.witness}
