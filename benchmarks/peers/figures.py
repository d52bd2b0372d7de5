"""Figures of a campaign: certified bound over truth, violations found, false alarms, and processor
time to 95 % of the truth.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from dpwitness.benchmarks.peers.campaign import ANSWER, NOT_EXPRESSIBLE, NOT_INSTALLED, Key, Run
from dpwitness.benchmarks.peers.cases import Case
from dpwitness.benchmarks.peers.tools import OWN, tools
from dpwitness.benchmarks.table import Row, Table

NEAR = 0.95  # share of the truth to which processor time is measured
Runs = Mapping[Key, Run]


@dataclass(frozen=True, slots=True)
class Summary:
    """Figures of one tool with one of its settings and one budget."""

    answers: int  # runs with an answer
    # median of bound over truth, over the cases with a bound and a finite truth
    ratio: float | None
    # broken cases of which a run states a violation, and those with a run that the tool can express
    found: tuple[int, int]
    # statements of a violation of a true claim, and runs on true claims with an answer
    alarms: tuple[int, int]
    without: int  # cases that the tool cannot express
    late: int  # runs without an answer in the processor time, or with an error


def selected(runs: Runs, tool: str, settings: str, budget: float) -> list[Run]:
    """Return the runs of a tool with these settings and this budget."""
    return [
        run
        for run in runs.values()
        if (run.tool, run.settings, run.budget) == (tool, settings, budget)
    ]


def budgets(runs: Runs) -> list[float]:
    """Return the budgets of all runs, in rising order."""
    return sorted({run.budget for run in runs.values()})


def main_budget(runs: Runs) -> float:
    """Return the budget of most runs, the smallest of those with equally many."""
    return max(
        budgets(runs),
        key=lambda budget: (sum(run.budget == budget for run in runs.values()), -budget),
    )


def budget_of(runs: Runs, tool: str) -> float:
    """Return the smallest budget, from the main budget on, at which a tool has an answer; the main
    budget if there is none.
    """
    first = main_budget(runs)
    answered = [
        run.budget
        for run in runs.values()
        if run.tool == tool and run.settings == "best" and run.state == ANSWER
    ]
    return min((budget for budget in answered if budget >= first), default=first)


def ratio(runs: Iterable[Run], case: str) -> float | None:
    """Return the median of bound over truth of the runs on a case; None without a bound, or if the
    truth is infinite.
    """
    truth = Case(case).truth
    bounds = [run.bound for run in runs if run.case == case and run.bound is not None]
    return median(bounds) / truth if bounds and math.isfinite(truth) else None


def summary(runs: Sequence[Run]) -> Summary:
    """Return the figures of the runs of one tool with one of its settings and one budget."""
    broken = {name: Case(name).broken for name in {run.case for run in runs}}
    answers = [run for run in runs if run.state == ANSWER]
    ratios = [found for found in (ratio(answers, name) for name in broken) if found is not None]
    without = {run.case for run in runs if run.state == NOT_EXPRESSIBLE}
    asked = {name for name, is_broken in broken.items() if is_broken} - without
    true = [run.violated for run in answers if not broken[run.case]]
    return Summary(
        answers=len(answers),
        ratio=median(ratios) if ratios else None,
        found=(len({run.case for run in answers if run.violated} & asked), len(asked)),
        alarms=(sum(true), len(true)),
        without=len(without),
        late=sum(run.state not in (ANSWER, NOT_EXPRESSIBLE, NOT_INSTALLED) for run in runs),
    )


def seconds_to_truth(runs: Runs, tool: str, case: str) -> float | None:
    """Return the smallest measured budget at which the median bound of the best settings is near
    the truth; None if there is none.
    """
    for budget in budgets(runs):
        found = ratio(selected(runs, tool, "best", budget), case)
        if found is not None and found >= NEAR:
            return budget
    return None


def only_a_peer(runs: Runs) -> list[str]:
    """Return the broken cases of which a peer states a violation, and this project does not with
    the same settings and CPU seconds.
    """
    found: dict[tuple[str, str, float], set[str]] = {}
    for run in runs.values():
        if run.violated and Case(run.case).broken:
            found.setdefault((run.case, run.settings, run.budget), set()).add(run.tool)
    missed = []
    for (case, settings, budget), by in sorted(found.items()):
        tried = [
            run
            for run in runs.values()
            if (run.tool, run.case, run.settings) == (OWN, case, settings) and run.budget <= budget
        ]
        if tried and not any(run.violated for run in tried):
            reasons = "; ".join(sorted({run.note for run in tried if run.state != ANSWER}))
            peers = ", ".join(tools()[name].title for name in sorted(by))
            missed.append(
                f"{case}, {settings} settings, {budget:g} s: {peers}"
                + (f" (this tool {reasons})" if reasons else "")
            )
    return missed


def table(runs: Runs, bugs: Sequence[Row] = ()) -> Table:
    """Return the figures of a campaign: violations found relative to the best peer, cases that only
    a peer finds, and false alarms. The published page has those of every tool.

    Parameters
    ----------
    runs : mapping
        Stored runs.
    bugs : sequence of Row
        Rows of the campaign on the recall corpus.
    """
    rows = list[Row]()
    for budget in budgets(runs):
        found = {name: selected(runs, name, "best", budget) for name in tools()}
        figures = {name: summary(some) for name, some in found.items() if some}
        if OWN in figures:
            own = figures.pop(OWN)
            most, after = (
                max((one.found[0] for one in figures.values()), default=0),
                f"{budget:g} CPU s",
            )
            rows += [
                Row(f"broken mechanisms found, {after}", most, own.found[0], "cases"),
                Row(f"false alarms at the claim, {after}", 0, own.alarms[0], "runs", at_most=True),
            ]
    missed = only_a_peer(runs)
    if rows:
        case = "broken mechanisms that only a peer finds"
        rows.append(Row(case, 0, len(missed), "cases", at_most=True))
    notes = (
        *(f"only a peer finds {line}" for line in missed),
        *(f"not installed: {line}" for line in absent(runs)),
    )
    return Table("peers", (*rows, *bugs), notes)


def absent(runs: Runs) -> list[str]:
    """Return the tools that could not be installed, each with the reason."""
    found = (run for run in runs.values() if run.state == NOT_INSTALLED)
    return sorted({f"{tools()[run.tool].title}: {run.note}" for run in found})
