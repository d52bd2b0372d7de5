"""Page on trust: error rates of this project's own statements, from the JSON of its benchmarks. All
numbers come from the JSON.

``dpwitness bench calibration --json > calibration.json``, the same for ``adversarial``, ``fuzz``
and ``mutation``, and then ``python -m dpwitness.benchmarks.pages trust FOLDER calibration.json
adversarial.json fuzz.json mutation.json``, which writes ``trust.json`` and its summary.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from dpwitness.benchmarks.pages.bench_pages import direction, required, sentences, stored_tables
from dpwitness.benchmarks.table import Row, Table, interval
from dpwitness.core.values.atomic_files import write_text
from dpwitness.core.values.wording import figure
from dpwitness.reports.wording import table

_INTRODUCTION = (
    "Every kind of statement of an audit is made many times where the truth is known, and its "
    "errors are counted. Each count has an exact (Clopper-Pearson) interval at 95 %. A row is "
    "*met* where chance explains the count: a statement with a correct rate misses with "
    "probability 1e-6. [trust.json](trust.json) has every row. What an adversarial review found "
    "and did not repair is in `docs/explanation/limits.md`."
)
_SHOWN = 8  # attacks that the page names

# (first words of the group's calibration rows, heading, explanation of the numbers)
_GROUPS: tuple[tuple[str, str, str], ...] = (
    (
        "false VIOLATED",
        "False VIOLATED",
        "Mechanisms whose claims hold with equality, audited many times. The share of audits "
        "with the verdict VIOLATED must not "
        "exceed alpha, one minus the confidence. The share is also counted at alpha = .5, "
        "where a wrong error rate is easiest to detect.",
    ),
    (
        "false CERTIFIED",
        "False CERTIFIED",
        "Densities that violate their claim in places that are hard to find: narrow spikes, "
        "swapped slivers, rare and far "
        "values, constants one per cent too small. A proof must never give the verdict "
        "CERTIFIED for them, and sampling at most "
        "at the stated error rate.",
    ),
    (
        "false verdict",
        "Awkward densities",
        "Densities that are correct and hard to integrate must not get a false verdict, nor "
        "an ERROR that blames them; "
        "densities that their sampler contradicts must end in ERROR or without a verdict.",
    ),
    (
        "found at",
        "Power at `detectable`",
        "An audit that finds nothing names the smallest violation of its event's kind that "
        "it would have found with probability "
        ".9. Here a mechanism of that kind with that parameter is audited: the rate is the "
        "share of audits that find the violation.",
    ),
    (
        "lower end",
        "Lower ends",
        "Confidence limits that lie above the truth; and tests that exceed the limit, of "
        "which half should.",
    ),
    (
        "upper end",
        "Upper ends",
        "Confidence limits that lie below the truth; and tests that stay below the limit, of "
        "which half should.",
    ),
)


def page(tables: Sequence[Table]) -> str:
    """Return the markdown of the page from benchmark tables of `dpwitness bench --json`.

    Examples
    --------
    >>> case, unit = "false VIOLATED, all mechanisms, alpha 0.5", "of 10, stated 0.5"
    >>> row = Row(case, 0.7, 0.4, unit, at_most=True, counts=(4, 10))
    >>> print(page([Table("calibration", (row,))]).splitlines()[0])
    # Trust: 1 of 1 measurements as stated
    """
    rows = [row for found in tables for row in found.rows]
    met = sum(row.met for row in rows)
    lines = [
        f"# Trust: {met} of {len(rows)} measurements as stated",
        "",
        _INTRODUCTION,
        "",
        *_summary(tables),
    ]
    for found in tables:
        lines += _SECTION_WRITERS.get(found.name, _other_section)(found)
    return "\n".join(lines).rstrip() + "\n"


def _summary(tables: Sequence[Table]) -> list[str]:
    """Return a table with one row per benchmark: the number of rows met, and the rows missed."""
    cells = []
    for found in tables:
        missed = [row.case for row in found.rows if not row.met]
        cells.append(
            (
                _HEADINGS.get(found.name, found.name),
                f"{len(found.rows) - len(missed)} of {len(found.rows)}",
                "; ".join(missed) or "none",
                f"`dpwitness bench {found.name}`",
            )
        )
    return [*table(("subject", "rows met", "missed", "command"), cells), ""]


def _calibration_section(found: Table) -> list[str]:
    lines = ["## Calibration", "", *sentences(found.notes), ""]
    remaining = list(found.rows)
    for start, heading, words in _GROUPS:
        rows = [row for row in remaining if row.case.startswith(start)]
        remaining = [row for row in remaining if not row.case.startswith(start)]
        if rows:
            lines += [f"### {heading}", "", words, "", *_rates_table(rows, start), ""]
    if remaining:
        broken = [f"- {row.case}: {_counted(row)}" for row in remaining]
        lines += ["### Rows that broke", "", *broken, ""]
    return lines


def _rates_table(rows: Sequence[Row], start: str) -> list[str]:
    """Return a table with one row per stated rate: how many rows meet the rate, and the counts of
    the row with the most trials and of the most extreme row.
    """

    def named(row: Row) -> str:
        return f"{row.case.removeprefix(start).lstrip(',: ')}: {_counted(row)}"

    cells = []
    for stated in dict.fromkeys(map(_stated_rate, rows)):
        own = [row for row in rows if _stated_rate(row) == stated]
        largest = max(own, key=lambda row: _counts(row)[1])
        extreme = (max if own[0].at_most else min)(own, key=lambda row: row.measured)
        cells.append(
            (
                stated,
                f"{sum(row.met for row in own)} of {len(own)}",
                named(largest),
                "the same" if extreme is largest else named(extreme),
                "; ".join(row.case for row in own if not row.met) or "none",
            )
        )
    return table(("stated rate", "rows met", "most trials", "most extreme row", "missed"), cells)


def _counted(row: Row) -> str:
    count, of = _counts(row)
    low, high = interval(count, of)
    return f"{count:,} of {of:,} ({low:.3f} to {high:.3f})"


def _adversarial_section(found: Table) -> list[str]:
    """Return the section on attacks: the number of attacks by stated rate, and the attacks whose
    counts chance explains least.
    """
    pairs = sorted(zip(found.rows, found.details, strict=True), key=lambda pair: pair[1]["p_value"])
    never = [row for row, details in pairs if not details["stated"]]
    failures = [
        f"- {details['attack']}: {text}"
        for row, details in pairs
        for text in details["failures"]
        if not details["stated"]
    ]
    words = (
        "Attacks on the honesty of the program, with random parameters in every run. A row counts "
        "the runs in which the program failed. The p-value is the exact binomial probability of at "
        f"least this number of failures at the stated rate. {len(never)} attacks must never "
        f"succeed: {sum(_counts(row)[0] for row in never)} of "
        f"{sum(_counts(row)[1] for row in never):,} runs did. The {_SHOWN} others whose counts "
        "chance explains least:"
    )
    shown = [
        (
            row.case,
            f"at most {figure(details['stated'])}",
            _counted(row),
            figure(details["p_value"]),
            "resisted" if row.met else "**succeeds**",
        )
        for row, details in pairs
        if details["stated"]
    ]
    return [
        "## Attacks",
        "",
        words,
        "",
        *table(("attack", "stated failures", "counted", "p-value", ""), shown[:_SHOWN]),
        "",
        *failures,
        *sentences(found.notes),
        "",
    ]


def _counts(row: Row) -> tuple[int, int]:
    assert row.counts is not None
    return row.counts


def _stated_rate(row: Row) -> str:
    stated = re.search(r"stated ([0-9.e-]+)", row.unit)
    return f"{direction(row)} {stated[1].rstrip('.')}" if stated else ""


def _other_section(found: Table) -> list[str]:
    """Return the section of any other benchmark: its notes, and a table of its rows by group, where
    the group is the text before a colon.
    """
    groups: dict[str, list[str]] = {}
    for row in found.rows:
        group, _, name = row.case.rpartition(": ")
        cell = f"{name}: {figure(row.measured, 6)} ({required(row)})"
        groups.setdefault(group, []).append(cell if row.met else f"**missed** {cell}")
    lines = [
        f"- {group}: {'; '.join(cells)}" if group else f"- {'; '.join(cells)}"
        for group, cells in groups.items()
    ]
    heading = _HEADINGS.get(found.name, found.name)
    return [f"## {heading}", "", *sentences(found.notes), "", *lines, ""]


_HEADINGS = {
    "calibration": "Calibration",
    "adversarial": "Attacks",
    "fuzz": "Hostile inputs",
    "mutation": "Mutants of the claims' proofs",
    "mutation-code": "Mutants of the code",
    "kernel": "Kernel",
    "sequential": "Sequential audits",
    "white-box": "Proofs from densities",
    "scale": "Workers and clusters",
}
_SECTION_WRITERS: Mapping[str, Callable[[Table], list[str]]] = {
    "calibration": _calibration_section,
    "adversarial": _adversarial_section,
}


def write(folder: Path, *files: str) -> None:
    """Write ``trust.json`` and its summary ``trust.md`` from files with JSON of benchmarks; without
    files, the summary again.
    """
    write_text(folder / "trust.md", page(stored_tables(folder, "trust", files)))


_OTHERS = (
    "What the documentation says of the run lengths of sequential audits, of proofs from densities "
    "and of several workers. [measurements.json](measurements.json) has every row."
)


def write_measurements(folder: Path, *files: str) -> None:
    """Write ``measurements.json`` and its summary ``measurements.md`` from files with JSON of
    benchmarks; without files, the summary again.
    """
    found = stored_tables(folder, "measurements", files)
    rows = [row for entry in found for row in entry.rows]
    title = f"# Measurements: {sum(row.met for row in rows)} of {len(rows)} as asked"
    lines = [title, "", _OTHERS, "", *_summary(found)]
    lines += [line for entry in found for line in _other_section(entry)]
    write_text(folder / "measurements.md", "\n".join(lines).rstrip() + "\n")
