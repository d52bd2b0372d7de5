"""Figures of a campaign and the published page: certified bound over truth, violations found, false
alarms, and processor time to 95 % of the truth. All numbers come from the stored runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import median

import numpy as np

from dpwitness.benchmarks.peers.campaign import (
    ANSWER,
    CONFIDENCE,
    NOT_EXPRESSIBLE,
    NOT_INSTALLED,
    OWN,
    SETTINGS,
    Key,
    Run,
    Tool,
    omitted,
    tools,
)
from dpwitness.benchmarks.peers.cases import NAMES, Case
from dpwitness.benchmarks.pictures import drawing
from dpwitness.benchmarks.table import Row, Table
from dpwitness.core.values.atomic_files import write_text
from dpwitness.core.values.wording import figure
from dpwitness.reports.wording import table as markdown_table

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


_INTRODUCTION = (
    "Other auditing tools and this one audit the same mechanisms, whose true privacy is "
    "known, with the same CPU seconds. All tools get "
    "the worst pair of datasets, so that no tool has to search for it. Each tool is called "
    "as its documentation says. The *default* "
    "settings are those of the tool or of its example. The *best* settings are the best "
    f"that we found, at confidence {CONFIDENCE:g}."
)
_TIME = (
    "Only the processor time of the attack counts. The start of a tool, compilation, and "
    "smaller attacks that determine how many runs fit "
    "are free. A default setting that needs more CPU seconds has no answer."
)
_MORE = (
    "A tool that has no answer in this time has more, as its column says. Settings without a row "
    "have not been run."
)
_LIMITS = (
    "Outputs that a tool cannot express are counted as such, and not as misses. The "
    "mechanisms are those of the experiments of StatDP, "
    "DP-Sniper and Delta-Siege that the zoo has; a campaign may have run some of them only."
)
_CASES = (
    "Certified bound over truth with the best settings, or the bound if the truth is infinite; "
    "**bold** if the tool states a violation."
)
_COMMANDS = """```
dpwitness bench peers
python -m dpwitness.benchmarks.peers.run --checkout dp_sniper=FOLDER --checkout delta_siege=FOLDER --checkout dp_auditorium_tester=FOLDER
python -m dpwitness.benchmarks.peers.run --stored FOLDER --part zoo --seed 1
python -m dpwitness.benchmarks.peers.run --stored FOLDER --part corpus --entries 17
python -m dpwitness.benchmarks.peers.run --page reports/published
```

The first command runs what the stored runs lack and the registry has. `--stored` names another folder of runs, to make all again."""  # noqa: E501


def write_page(runs: Runs, folder: Path, bugs: Sequence[str] = ()) -> None:
    """Write ``peers.md`` and ``peers.svg`` into a folder; `bugs` are the lines of the section on
    bugs of libraries.
    """
    budget = main_budget(runs)
    _draw(runs, budget, folder / "peers.svg")
    write_text(folder / "peers.md", page(runs, budget, bugs))


def page(runs: Runs, budget: float, bugs: Sequence[str] = ()) -> str:
    """Return the markdown of the page."""
    cases = [name for name in NAMES if any(run.case == name for run in runs.values())]
    lines = [
        "# Peers: the same mechanisms audited by other tools",
        "",
        _INTRODUCTION,
        "",
        _TIME,
        "",
    ]
    extent = f"{len(cases)} of {len(NAMES)} mechanisms, by the seeds that the table counts"
    lines += [f"Here each attack has {budget:g} CPU seconds ({extent}). {_MORE}", ""]
    lines += [
        "![Certified bound divided by the truth, one row per mechanism: the nearer to the line at "
        "1 the better, and beyond it the bound is wrong](peers.svg)",
        "",
        "## Tools",
        "",
        *_tools_table(runs),
        "",
    ]
    missed = only_a_peer(runs)
    lines += [
        f"Only a peer finds: {'; '.join(missed)}."
        if missed
        else "On these mechanisms no peer finds a violation that this tool misses with the same "
        "settings and CPU seconds.",
        "",
    ]
    lines += [*bugs, "## Every case", "", _CASES, ""]
    lines += [
        *_cases_table(runs, cases),
        "",
        f"Smallest measured budget, in CPU seconds, at which the bound is {NEAR:.0%} of the truth:",
        "",
    ]
    lines += [*_time_table(runs, cases), "", "## What each tool reads", "", *_reads_table(), ""]
    lines += [f"- Not compared: {name}, {reason}." for name, reason in omitted().items()]
    lines += [f"- Not installed: {line}." for line in absent(runs)]
    return "\n".join([*lines, "", _LIMITS, "", "## Reproduce", "", _COMMANDS]) + "\n"


def _present(runs: Runs) -> list[Tool]:
    return [
        tool for name, tool in tools().items() if any(run.tool == name for run in runs.values())
    ]


def _tools_table(runs: Runs) -> list[str]:
    rows = []
    for tool in _present(runs):
        for settings, budget in product(SETTINGS, budgets(runs)):
            found = selected(runs, tool.name, settings, budget)
            if found:
                one = summary(found)
                counts = [f"{part} of {whole}" for part, whole in (one.found, one.alarms)]
                share = "" if one.ratio is None else figure(one.ratio, 3)
                seeds = str(len({run.seed for run in found}))
                rows.append(
                    [
                        tool.title,
                        settings,
                        f"{budget:g}",
                        seeds,
                        share,
                        *counts,
                        str(one.without),
                        str(one.late),
                    ]
                )
    head = [
        "tool",
        "settings",
        "CPU s",
        "seeds",
        "bound / truth",
        "broken found",
        "false alarms",
        "not expressible",
        "no answer",
    ]
    return markdown_table(head, rows)


def _title(runs: Runs, tool: Tool) -> str:
    """Return the name of a tool, with its CPU seconds if they are not those of the others."""
    budget = budget_of(runs, tool.name)
    return tool.title + ("" if budget == main_budget(runs) else f" ({budget:g} s)")


def _cases_table(runs: Runs, cases: list[str]) -> list[str]:
    rows = []
    for name in cases:
        case, entries = Case(name), []
        for tool in _present(runs):
            found = selected(runs, tool.name, "best", budget_of(runs, tool.name))
            entries.append(_entry([run for run in found if run.case == name]))
        claim = f"{case.epsilon:g}" + (f", delta {case.delta:g}" if case.delta else "")
        rows.append([name, claim, figure(case.truth, 4), *entries])
    return markdown_table(
        ["mechanism", "claim", "truth", *(_title(runs, tool) for tool in _present(runs))], rows
    )


def _entry(runs: list[Run]) -> str:
    """Return the text for one tool on one case."""
    if not runs:
        return ""
    share = ratio(runs, runs[0].case)
    bounds = [run.bound for run in runs if run.bound is not None]
    states = sorted({"no bound" if run.state == ANSWER else run.state for run in runs})
    without = f"epsilon > {figure(float(np.median(bounds)), 3)}" if bounds else states[0]
    text = without if share is None else figure(share, 3)
    return f"**{text}**" if any(run.violated for run in runs) else text


def _time_table(runs: Runs, cases: list[str]) -> list[str]:
    present, rows = _present(runs), []
    for name in cases:
        row = [name]
        for tool in present:
            most = max(
                (run.budget for run in runs.values() if run.tool == tool.name and run.case == name),
                default=None,
            )
            seconds = seconds_to_truth(runs, tool.name, name)
            row.append(
                f"{seconds:g}"
                if seconds is not None
                else ""
                if most is None
                else f"more than {most:g}"
            )
        rows.append(row)
    return markdown_table(["mechanism", *(tool.title for tool in present)], rows)


def _reads_table() -> list[str]:
    rows = [
        [tool.title, tool.home, tool.licence, tool.reads, tool.default, tool.best]
        for tool in tools().values()
    ]
    return markdown_table(
        ["tool", "source", "licence", "reads", "default settings", "best settings"], rows
    )


def _draw(runs: Runs, budget: float, path: Path) -> None:
    """Draw bound over truth by case, one marker per tool; filled markers are statements of a
    violation.
    """
    present, marks = _present(runs), "osv^DP*X"
    cases = [
        name
        for name in NAMES
        if any(run.case == name and np.isfinite(Case(name).truth) for run in runs.values())
    ]
    with drawing(path, 7.2, 0.36 * len(cases) + 1.4) as axes:
        for number, tool in enumerate(present):
            shown = [
                (
                    row,
                    name,
                    [run for run in selected(runs, tool.name, "best", budget) if run.case == name],
                )
                for row, name in enumerate(cases)
            ]
            points = [
                (share, row, any(run.violated for run in found))
                for row, name, found in shown
                if (share := ratio(found, name)) is not None
            ]
            shift = 0.11 * (number - (len(present) - 1) / 2)
            axes.plot(
                [],
                [],
                marks[number],
                color="black",
                markerfacecolor="white",
                markersize=5,
                label=_title(runs, tool),
            )
            for share, row, violated in points:
                axes.plot(
                    share,
                    row + shift,
                    marks[number],
                    color="black",
                    markerfacecolor="black" if violated else "white",
                    markersize=5,
                )
        axes.set_yticks(
            range(len(cases)),
            [f"{name}{' (broken)' if Case(name).broken else ''}" for name in cases],
        )
        axes.invert_yaxis()
        axes.axvline(1.0, color="black", linewidth=0.8, linestyle=":")
        axes.set_xlabel(
            f"certified bound / truth after {budget:g} CPU seconds; filled: violation stated"
        )
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)
