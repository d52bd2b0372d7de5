"""Published page of the comparison with other tools, and its picture. All numbers come from the
stored runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np

from dpwitness.benchmarks.peers.campaign import ANSWER, CONFIDENCE, Run
from dpwitness.benchmarks.peers.cases import NAMES, Case
from dpwitness.benchmarks.peers.figures import (
    NEAR,
    Runs,
    absent,
    budget_of,
    budgets,
    main_budget,
    only_a_peer,
    ratio,
    seconds_to_truth,
    selected,
    summary,
)
from dpwitness.benchmarks.peers.tools import SETTINGS, Tool, omitted, tools
from dpwitness.benchmarks.pictures import drawing
from dpwitness.core.values.atomic_files import write_text
from dpwitness.core.values.wording import figure
from dpwitness.reports.wording import table

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
        "![Certified bound over truth](peers.svg)",
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
    return table(head, rows)


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
    return table(
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
    return table(["mechanism", *(tool.title for tool in present)], rows)


def _reads_table() -> list[str]:
    rows = [
        [tool.title, tool.home, tool.licence, tool.reads, tool.default, tool.best]
        for tool in tools().values()
    ]
    return table(["tool", "source", "licence", "reads", "default settings", "best settings"], rows)


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
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), fontsize=8, ncols=3)
