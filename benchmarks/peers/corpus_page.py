"""Figures and section of the page for the bugs of the recall corpus: recall of each tool, and bugs
that only a peer finds.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import median

from dpwitness.benchmarks.peers.campaign import (
    ANSWER,
    CONFIDENCE,
    NOT_EXPRESSIBLE,
    NOT_INSTALLED,
    OWN,
    SETTINGS,
    tools,
)
from dpwitness.benchmarks.peers.corpus_campaign import BUDGETS
from dpwitness.benchmarks.peers.figures import Runs
from dpwitness.benchmarks.table import Row
from dpwitness.reports.wording import table

_METHOD = (
    "The bugs are those of [recall](recall.md) that run from releases of a registry. The "
    "peers have no search for datasets of these "
    "domains, so each gets the pair on which our audit ended, or the first pair of our "
    "catalog if the audit has none. Our audit gets the "
    "target alone, and has to find the pair. Outputs become vectors of numbers, -1 for a "
    "missing one, and columns far from 1 are scaled. "
    f"Each tool has {BUDGETS[0]:g} CPU seconds, with those of the library, or {BUDGETS[1]:g} "
    "if our audit does not find the bug in the "
    "first: the library runs once, all peers read the same outputs in the same order, and "
    "each pays the library's processor time for the "
    "outputs that it takes. Our audit has the same CPU seconds "
    "(`--seconds --clock cpu`) and its default settings, at confidence 0.99. The *best* "
    "settings of the peers are at "
    f"confidence {CONFIDENCE:g}. Exceptions, aborted processes, texts, stability maps, "
    "accountants, and zCDP and Gaussian claims have no "
    "form in the peers; they count as not expressible, and not as misses."
)
_NOT_RUN = (
    "A violation is searched in the release with the bug only; the peers have not been run "
    "on the repaired releases. Our audit finds "
    f"some of the bugs with {BUDGETS[1]:g} CPU seconds with {BUDGETS[0]:g} by now."
)


@dataclass(frozen=True, slots=True)
class Recall:
    """Bugs that a tool finds with one of its settings."""

    found: int
    expressible: int
    audited: int  # entries with an outcome
    late: int  # runs without an answer in the CPU seconds, or with an error


def with_largest_budget(runs: Runs) -> Runs:
    """Return the runs of each entry with the largest budget that our audit has had on it."""
    most: dict[str, float] = {}
    for run in runs.values():
        if run.tool == OWN:
            most[run.case] = max(run.budget, most.get(run.case, 0.0))
    return {key: run for key, run in runs.items() if run.budget == most.get(run.case)}


def audited(runs: Runs) -> list[str]:
    """Return the entries with an outcome of our audit and of a peer, sorted."""
    by_case: dict[str, set[bool]] = {}
    for run in runs.values():
        if run.state != NOT_INSTALLED:
            by_case.setdefault(run.case, set()).add(run.tool == OWN)
    return sorted(case for case, kinds in by_case.items() if kinds == {True, False})


def recall(runs: Runs, tool: str, settings: str, cases: Collection[str]) -> Recall:
    """Return the figures of a tool with these settings on some entries."""
    found = [
        run
        for run in runs.values()
        if (run.tool, run.settings) == (tool, settings) and run.case in cases
    ]
    found = [run for run in found if run.state != NOT_INSTALLED]
    without = sum(run.state == NOT_EXPRESSIBLE for run in found)
    answers = sum(run.state == ANSWER for run in found)
    return Recall(
        sum(run.violated for run in found),
        len(found) - without,
        len(found),
        len(found) - without - answers,
    )


def only_a_peer_finds(runs: Runs) -> list[str]:
    """Return the entries in which a peer finds a violation with some settings, and our audit does
    not with the same CPU seconds.
    """
    own = {(run.case, run.budget) for run in runs.values() if run.tool == OWN and run.violated}
    found: dict[tuple[str, float], set[str]] = {}
    for run in runs.values():
        if run.violated and run.tool != OWN and (run.case, run.budget) not in own:
            found.setdefault((run.case, run.budget), set()).add(
                f"{tools()[run.tool].title}, {run.settings}"
            )
    return [
        f"{case}, {budget:g} s ({'; '.join(sorted(by))})"
        for (case, budget), by in sorted(found.items())
    ]


def rows(all_runs: Runs) -> list[Row]:
    """Return the rows of the benchmark's table: our recall relative to the best peer, and bugs that
    only a peer finds.
    """
    runs = with_largest_budget(all_runs)
    cases = audited(runs)
    if not cases:
        return []
    most = max(
        recall(runs, name, settings, cases).found
        for name in tools()
        if name != OWN
        for settings in SETTINGS
    )
    return [
        Row(
            "bugs of the recall corpus found",
            most,
            recall(runs, OWN, "default", cases).found,
            "entries",
        ),
        Row(
            "bugs of the recall corpus that only a peer finds",
            0,
            len(only_a_peer_finds(runs)),
            "entries",
            at_most=True,
        ),
    ]


def section(all_runs: Runs, runnable: int) -> list[str]:
    """Return the lines of the section; none without runs. `runnable` is the number of entries of
    the corpus that can run.
    """
    runs = with_largest_budget(all_runs)
    cases = audited(runs)
    if not cases:
        return []
    seconds = [run.cpu_seconds for run in runs.values() if run.tool == OWN and run.case in cases]
    extent = (
        "all"
        if len(cases) == runnable
        else f"the first {len(cases)} in an order that a seed has drawn"
    )
    lines = [
        "## Bugs of libraries",
        "",
        _METHOD,
        "",
        f"The corpus has {runnable} bugs that run; here are {extent}. {_NOT_RUN}",
        "",
    ]
    lines += [*_recall_table(runs, cases), ""]
    lines += [
        f"Our audits took {median(seconds):.0f} CPU seconds in the median, and at most "
        f"{max(seconds):.0f}.",
        "",
    ]
    missed = only_a_peer_finds(runs)
    lines += [
        f"Only a peer finds: {'; '.join(missed)}."
        if missed
        else "No peer finds a bug that our audit misses in these runs.",
        "",
    ]
    if fewer := [line for line in only_a_peer_finds(all_runs) if line not in missed]:
        lines += [
            f"With fewer CPU seconds only a peer finds: {'; '.join(fewer)}. Our audit finds "
            "them with more.",
            "",
        ]
    own = [run for run in runs.values() if run.tool == OWN and run.case in cases]
    found = {run.case for run in own if run.violated}
    names = ", ".join(f"`{case}`" for case in cases if case not in found)
    return [
        *lines,
        f"Our audit does not find {names or 'none'}. [peers-recall.json](peers-recall.json) has "
        "the outcome of every tool on every entry.",
        "",
        *_reasons(runs, cases),
        "",
    ]


def _recall_table(runs: Runs, cases: Sequence[str]) -> list[str]:
    found = []
    for name, settings in product(tools(), SETTINGS):
        one = recall(runs, name, settings, cases)
        if one.audited:
            shares = [f"{one.found} of {whole}" for whole in (one.expressible, one.audited)]
            found.append(
                [
                    tools()[name].title,
                    settings,
                    *shares,
                    str(one.audited - one.expressible),
                    str(one.late),
                ]
            )
    return table(
        [
            "tool",
            "settings",
            "found of expressible",
            "found of all",
            "not expressible",
            "no answer",
        ],
        found,
    )


def _reasons(runs: Runs, cases: Collection[str]) -> list[str]:
    """Return why no peer can express an entry, one line per reason."""
    by: dict[str, set[str]] = {}
    peers = [run for run in runs.values() if run.tool != OWN and run.case in cases]
    for case in cases:
        found = [run for run in peers if run.case == case]
        if all(run.state == NOT_EXPRESSIBLE for run in found):
            for note in {run.note for run in found}:
                by.setdefault(note, set()).add(case)
    return [
        f"- Not expressible in any peer: {', '.join(sorted(names))}: {note}."
        for note, names in sorted(by.items())
    ]
