"""Page on trust: error rates of this project's own statements, from the JSON of its benchmarks. All
numbers come from the JSON.

``dpwitness bench calibration --json > calibration.json``, the same for ``adversarial``, ``fuzz``
and ``mutation``, and then ``python -m dpwitness.benchmarks.pages trust FOLDER
calibration.json adversarial.json fuzz.json mutation.md docs/explanation/limits.md``. A markdown
file becomes a section.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dpwitness.benchmarks.pages.bench_pages import (
    direction,
    outcome,
    read_tables,
    required,
    sentences,
)
from dpwitness.benchmarks.table import Row, Table, interval
from dpwitness.core.values.atomic_files import write_text
from dpwitness.core.values.wording import figure
from dpwitness.reports.wording import table

_INTRODUCTION = (
    "The error rates of a verdict decide how far it can be trusted. Here the errors are "
    "counted: every kind of statement of an "
    "audit is made many times where the truth is known, and its error rate is compared with "
    "the stated rate. Each count has an "
    "exact (Clopper-Pearson) interval at 95 %. A row is *met* "
    "where chance explains the count: a statement with a correct rate misses with probability 1e-6."
)

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


def page(tables: Sequence[Table], sections: Sequence[str] = ()) -> str:
    """Return the markdown of the page from benchmark tables of `dpwitness bench --json`, and from
    sections in markdown.

    Examples
    --------
    >>> case, unit = "false VIOLATED, all mechanisms, alpha 0.5", "of 10, stated 0.5"
    >>> row = Row(case, 0.7, 0.4, unit, at_most=True, counts=(4, 10))
    >>> print(page([Table("calibration", (row,))]).splitlines()[0])
    # How far this project can be trusted
    """
    lines = ["# How far this project can be trusted", "", _INTRODUCTION, "", *_summary(tables)]
    for found in tables:
        lines += _SECTION_WRITERS.get(found.name, _other_section)(found)
    for text in sections:
        lines += [re.sub(r"^#(?= )", "##", text.strip()), ""]
    return "\n".join(lines).rstrip() + "\n"


def _summary(tables: Sequence[Table]) -> list[str]:
    """Return one line per benchmark: the number of rows met, and the names of rows missed."""
    lines = []
    for found in tables:
        missed = [row.case for row in found.rows if not row.met]
        rows_met = f"{len(found.rows) - len(missed)} of {len(found.rows)} rows met"
        lines.append(
            f"- **{found.name}**: {rows_met}" + (f"; missed: {'; '.join(missed)}" if missed else "")
        )
    return [*lines, ""]


def _calibration_section(found: Table) -> list[str]:
    lines = ["## Calibration", "", *sentences(found.notes), ""]
    remaining = list(found.rows)
    for start, heading, words in _GROUPS:
        rows = [row for row in remaining if row.case.startswith(start)]
        remaining = [row for row in remaining if not row.case.startswith(start)]
        if rows:
            lines += [f"### {heading}", "", words, "", *_counts_table(rows, start), ""]
    if remaining:
        lines += ["### Rows that broke", "", *_counts_table(remaining, ""), ""]
    return lines


def _adversarial_section(found: Table) -> list[str]:
    """Return the section on attacks, with the stated rate, the measured rate and the exact p-value
    of each attack.
    """

    def line(row: Row, details: Mapping[str, Any]) -> list[str]:
        count, of = _counts(row)
        answer = "resisted" if row.met else "**succeeds**"
        stated, p_value = figure(details["stated"]), figure(details["p_value"])
        return [
            row.case,
            f"at most {stated}" if details["stated"] else "never",
            f"{count} of {of}",
            _interval(row),
            p_value,
            answer,
        ]

    pairs = zip(found.rows, found.details, strict=True)
    notes = sentences(found.notes)
    words = (
        "Attacks on the honesty of the program, with random parameters in every run. A row "
        "counts the runs in which the program failed. "
        "The p-value is the exact binomial probability of at least this number of failures "
        "at the stated rate."
    )
    failures = [
        f"- {each['attack']}: {text}"
        for each in found.details
        for text in each["failures"]
        if not each["stated"]
    ]
    failure_list = ["", "Failures that must never happen:", "", *failures] if failures else []
    head = ["attack", "stated failures", "counted", "95 % interval", "p-value", ""]
    return [
        "## Attacks",
        "",
        words,
        "",
        *notes,
        "",
        *table(head, [line(*pair) for pair in pairs]),
        *failure_list,
        "",
    ]


def _counts_table(rows: Sequence[Row], start: str) -> list[str]:
    def line(row: Row) -> list[str]:
        count, of = _counts(row)
        case = row.case.removeprefix(start).lstrip(",: ") or row.case
        return [
            case,
            f"{count} of {of}",
            figure(row.measured),
            _interval(row),
            _stated_rate(row),
            outcome(row.met),
        ]

    return table(
        ["case", "counted", "rate", "95 % interval", "stated", ""], [line(row) for row in rows]
    )


def _counts(row: Row) -> tuple[int, int]:
    assert row.counts is not None
    return row.counts


def _interval(row: Row) -> str:
    low, high = interval(*_counts(row))
    return f"{low:.3f} to {high:.3f}"


def _stated_rate(row: Row) -> str:
    stated = re.search(r"stated ([0-9.e-]+)", row.unit)
    return f"{direction(row)} {stated[1].rstrip('.')}" if stated else ""


def _other_section(found: Table) -> list[str]:
    """Return the section of any other benchmark: its notes and a table of its rows."""
    heading = {"fuzz": "Hostile inputs", "mutation": "Mutants of the claims' proofs"}.get(
        found.name, found.name.capitalize()
    )
    rows = [
        [row.case, required(row), figure(row.measured, 6), row.unit, outcome(row.met)]
        for row in found.rows
    ]
    return [
        f"## {heading}",
        "",
        *sentences(found.notes),
        "",
        *table(["case", "required", "found", "unit", ""], rows),
        "",
    ]


_SECTION_WRITERS: Mapping[str, Callable[[Table], list[str]]] = {
    "calibration": _calibration_section,
    "adversarial": _adversarial_section,
}


def write(folder: Path, *files: str) -> None:
    """Write ``trust.md`` from files with JSON of benchmarks, and with sections in markdown."""
    tables = [entry for file in files if not file.endswith(".md") for entry in read_tables(file)]
    sections = [Path(file).read_text(encoding="utf-8") for file in files if file.endswith(".md")]
    write_text(folder / "trust.md", page(tables, sections))
