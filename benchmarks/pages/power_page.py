"""Page on power: certified bounds relative to an oracle's limit, and the causes of the gap, from
the JSON of `dpwitness bench power`.

``python -m dpwitness.benchmarks.pages power FOLDER power.json`` writes ``power.md`` and its plot.
All numbers come from the JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from dpwitness.benchmarks.pages.bench_json import outcome, read_table, sentences
from dpwitness.benchmarks.pictures import drawing
from dpwitness.benchmarks.table import Row, Table
from dpwitness.core.values.atomic_files import write_text
from dpwitness.core.values.wording import count, figure
from dpwitness.reports.wording import table

Budget = Mapping[str, Any]  # an entry of the details of `bench.power`: trials, seeds, cases

_INTRODUCTION = (
    "A verdict NOT_REFUTED is worth as much as the chance that a violation would have been found. "
    "Here complete audits run on every mechanism of the zoo and of the papers whose law of the "
    "privacy loss is known, on a given pair. Their certified bounds, at confidence 0.95, are "
    "divided by the *limit*: the median bound of the best event, known in advance, with as many "
    "runs. Each case is represented by its median over the seeds. By chance, a ratio can exceed 1."
)
_FAMILIES = (
    "Families of mechanisms that are hard to audit, with parameters drawn by a seed: the "
    "median over three members, each with three "
    "seeds of the audit."
)
_CAUSES = (
    "Certified / limit is the product of three factors: *rounds* that train an event certify "
    "nothing; *looks* (interim "
    "analyses) take a share of alpha; the *event* that was learned differs from the oracle's "
    "(the chance of the seeds is "
    "included here). Medians over the cases."
)
_ORACLE = (
    "An audit that knows the law, and spends every run on a test of the best event, depends "
    "on chance too: the best event "
    "may be so rare that a few counts decide. With as many seeds per case, the oracle "
    "attains these medians over many repeats:"
)
_SHORT = (
    "Below are the cases under the required 10 % quantile. Next to each is an oracle that "
    "has the training data of an audit and no more, "
    "and the audit's stages. If outputs are few, it knows which privacy losses occur, but "
    "not which output has which loss. Otherwise it "
    "knows the order of all outputs by their loss, and chooses thresholds from the training "
    "counts. An audit knows neither. Where the "
    "audit is above the 10 % quantile of this oracle over repeats, a better learner would "
    "not help: only more runs do. Elsewhere "
    "the audit loses because it learns the order."
)
_QUANTILES = (("median", 0.5), ("10 % quantile", 0.1), ("worst", 0.0))


def page(found: Table, plot_name: str) -> str:
    """Return the markdown of the page from the table of `bench power`."""
    budgets: Sequence[Budget] = found.details
    lines = [
        "# Power: certified bounds compared with those of an oracle",
        "",
        _INTRODUCTION,
        "",
        *sentences(found.notes[:1]),
        "",
        f"![Certified over the limit]({plot_name})",
        "",
        "## By number of runs",
        "",
        *_quantile_table(budgets, found.rows),
        "",
        "## An oracle",
        "",
        _ORACLE,
        "",
        *_oracle_table(budgets),
        "",
        "## Causes of the gap to the limit",
        "",
        _CAUSES,
        "",
        *_causes_table(budgets),
        "",
    ]
    if any(budget["short"] for budget in budgets):
        lines += ["## Short cases", "", _SHORT, "", *_short_table(budgets), ""]
    if families := [row for row in found.rows if row.case.startswith("family: ")]:
        lines += ["## Families", "", _FAMILIES, "", *_families_table(families), ""]
    lines += ["## Every case", "", *_cases_table(budgets)]
    return "\n".join(lines) + "\n"


def _families_table(rows: Sequence[Row]) -> list[str]:
    cells = [
        (
            row.case.removeprefix("family: "),
            figure(row.measured, 3),
            f"{row.required:g} ({outcome(row.met)})",
        )
        for row in rows
    ]
    return table(("family", "median", "required"), cells)


def _ratios(budget: Budget) -> dict[str, float]:
    return {case["name"]: median(case["ratios"]) for case in budget["cases"]}


def _quantile(budget: Budget, share: float) -> float:
    return float(np.quantile(list(_ratios(budget).values()), share))


def _quantile_table(budgets: Sequence[Budget], required: Sequence[Row]) -> list[str]:
    required_values = {row.case: row.required for row in required}

    def format_share(budget: Budget, what: str, share: float) -> str:
        value = _quantile(budget, share)
        least = required_values.get(f"certified / limit at {budget['trials']:,} trials: {what}")
        return figure(value, 3) + (
            "" if least is None else f" ({outcome(value >= least)}: {least:g} required)"
        )

    head = ["trials", "cases", "seeds", *(what for what, _ in _QUANTILES)]
    return table(
        head,
        [
            [
                count(b["trials"]),
                count(len(b["cases"])),
                count(b["seeds"]),
                *(format_share(b, *q) for q in _QUANTILES),
            ]
            for b in budgets
        ],
    )


def _oracle_table(budgets: Sequence[Budget]) -> list[str]:
    return table(
        ["trials", *(what for what, _ in _QUANTILES)],
        [[count(b["trials"]), *(figure(x, 3) for x in b["oracle"])] for b in budgets],
    )


def _short_table(budgets: Sequence[Budget]) -> list[str]:
    """Return the table of cases below the required quantile, each with the oracle that learns."""
    head = [
        "trials",
        "case",
        "certified / limit",
        "oracle that learns",
        "its 10 % quantile",
        "the oracle knows",
        "a better learner would help",
    ]
    rows = [
        [
            count(b["trials"]),
            case["name"],
            *(figure(case[name], 3) for name in ("ratio", "oracle", "low")),
            "losses" if case["few"] else "order",
            "yes" if case["ratio"] < case["low"] else "no",
        ]
        for b in budgets
        for case in b["short"]
    ]
    return table(head, rows)


def _causes_table(budgets: Sequence[Budget]) -> list[str]:
    names = ("rounds", "looks", "event")
    rows = [
        [
            count(b["trials"]),
            *(figure(median(case[name] for case in b["cases"]), 3) for name in names),
        ]
        for b in budgets
    ]
    return table(["trials", *names], rows)


def _cases_table(budgets: Sequence[Budget]) -> list[str]:
    """Return the table of certified / limit by case and budget, smallest ratios first."""
    ratios = [_ratios(budget) for budget in budgets]
    names = sorted(
        {name for found in ratios for name in found},
        key=lambda name: (min(found.get(name, 9.0) for found in ratios), name),
    )
    head = ["case", *(f"{budget['trials']:,}" for budget in budgets)]
    return table(
        head, [[name, *(figure(found.get(name), 3) for found in ratios)] for name in names]
    )


def plot(budgets: Sequence[Budget], path: Path) -> None:
    """Draw the median, 10 % quantile and worst case over the number of trials."""
    with drawing(path) as axes:
        for (what, share), mark in zip(_QUANTILES, "osv", strict=True):
            axes.plot(
                [budget["trials"] for budget in budgets],
                [_quantile(budget, share) for budget in budgets],
                f"{mark}-",
                color="black",
                linewidth=1,
                markersize=5,
                label=what,
            )
        axes.set_xscale("log")
        axes.set_ylim(0, 1.05)
        axes.set_xlabel("trials")
        axes.set_ylabel("certified / limit")
        axes.legend(loc="lower right", fontsize=8)


def write(folder: Path, file: str) -> None:
    """Write ``power.md`` and its plot from JSON of `dpwitness bench power`."""
    found = read_table(file, "power")
    plot(found.details, folder / "power.svg")
    write_text(folder / "power.md", page(found, "power.svg"))
