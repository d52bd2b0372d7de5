"""Page on trust: error rates of this project's own statements, from the JSON of its benchmarks. All
numbers come from the JSON.

``dpwitness bench calibration --json > calibration.json``, the same for ``adversarial``, ``fuzz``
and ``mutation``, and then ``python -m dpwitness.benchmarks.pages.trust_page trust.md
calibration.json adversarial.json fuzz.json mutation.md docs/explanation/limits.md``. A markdown
file becomes a section.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dpwitness.core.values.atomic_files import write_text
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.reports.phrasing.wording import figure, table

Row = Mapping[str, Any]

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


def page(tables: Sequence[Mapping[str, Any]], sections: Sequence[str] = ()) -> str:
    """Return the markdown of the page from benchmark tables of `dpwitness bench --json`, and from
    sections in markdown.

    Examples
    --------
    >>> row = {"case": "false VIOLATED, all mechanisms, alpha 0.5", "measured": 0.4,
    ...     "required": 0.7, "unit": "of 10, stated 0.5",
    ...        "at_most": True, "counts": [4, 10]}
    >>> print(page([{"name": "calibration", "rows": [row], "notes": []}]).splitlines()[0])
    # How far this project can be trusted
    """
    lines = ["# How far this project can be trusted", "", _INTRODUCTION, "", *_summary(tables)]
    for found in tables:
        lines += _SECTION_WRITERS.get(found["name"], _other_section)(found)
    for text in sections:
        lines += [re.sub(r"^#(?= )", "##", text.strip()), ""]
    return "\n".join(lines).rstrip() + "\n"


def outcome(row: Row) -> str:
    """Return whether the measured number of a row meets the required number, as the
    text of a cell.
    """
    return "met" if _is_met(row) else "**missed**"


def required(row: Row, digits: int = 4) -> str:
    """Format the required number of a row: ``at most`` or ``at least`` the number."""
    return f"{_direction(row)} {figure(row['required'], digits)}"


def sentences(notes: Sequence[str]) -> list[str]:
    """Return the notes of a benchmark as sentences."""
    return [f"{note[0].upper()}{note[1:]}." for note in notes if note]


def _direction(row: Row) -> str:
    return "at most" if row.get("at_most") else "at least"


def _is_met(row: Row) -> bool:
    least, measured = float(row["required"]), float(row["measured"])
    return measured <= least if row.get("at_most") else measured >= least


def _summary(tables: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return one line per benchmark: the number of rows met, and the names of rows missed."""
    lines = []
    for found in tables:
        missed = [row["case"] for row in found["rows"] if not _is_met(row)]
        rows_met = f"{len(found['rows']) - len(missed)} of {len(found['rows'])} rows met"
        lines.append(
            f"- **{found['name']}**: {rows_met}"
            + (f"; missed: {'; '.join(missed)}" if missed else "")
        )
    return [*lines, ""]


def _calibration_section(found: Mapping[str, Any]) -> list[str]:
    lines = ["## Calibration", "", *sentences(found.get("notes", ())), ""]
    remaining = list(found["rows"])
    for start, heading, words in _GROUPS:
        rows = [row for row in remaining if row["case"].startswith(start)]
        remaining = [row for row in remaining if not row["case"].startswith(start)]
        if rows:
            lines += [f"### {heading}", "", words, "", *_counts_table(rows, start), ""]
    if remaining:
        lines += ["### Rows that broke", "", *_counts_table(remaining, ""), ""]
    return lines


def _adversarial_section(found: Mapping[str, Any]) -> list[str]:
    """Return the section on attacks, with the stated rate, the measured rate and the exact p-value
    of each attack.
    """

    def line(row: Row, details: Mapping[str, Any]) -> list[str]:
        count, of = row["counts"]
        answer = "resisted" if _is_met(row) else "**succeeds**"
        stated, p_value = figure(details["stated"]), figure(details["p_value"])
        return [
            row["case"],
            f"at most {stated}" if details["stated"] else "never",
            f"{count} of {of}",
            _interval(row),
            p_value,
            answer,
        ]

    pairs = zip(found["rows"], found.get("details", ()), strict=True)
    notes = sentences(found.get("notes", ()))
    words = (
        "Attacks on the honesty of the program, with random parameters in every run. A row "
        "counts the runs in which the program failed. "
        "The p-value is the exact binomial probability of at least this number of failures "
        "at the stated rate."
    )
    failures = [
        f"- {each['attack']}: {text}"
        for each in found.get("details", ())
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
        count, of = row["counts"]
        case = row["case"].removeprefix(start).lstrip(",: ") or row["case"]
        return [
            case,
            f"{count} of {of}",
            figure(row["measured"]),
            _interval(row),
            _stated_rate(row),
            outcome(row),
        ]

    return table(
        ["case", "counted", "rate", "95 % interval", "stated", ""], [line(row) for row in rows]
    )


def _interval(row: Row) -> str:
    from scipy.stats import beta

    count, of = (int(value) for value in row["counts"])
    low = float(beta.ppf(0.025, count, of - count + 1)) if count else 0.0
    high = float(beta.ppf(0.975, count + 1, of - count)) if count < of else 1.0
    return f"{low:.3f} to {high:.3f}"


def _stated_rate(row: Row) -> str:
    stated = re.search(r"stated ([0-9.e-]+)", str(row["unit"]))
    return f"{_direction(row)} {stated[1].rstrip('.')}" if stated else ""


def _other_section(found: Mapping[str, Any]) -> list[str]:
    """Return the section of any other benchmark: its notes and a table of its rows."""
    heading = {"fuzz": "Hostile inputs", "mutation": "Mutants of the claims' proofs"}.get(
        found["name"], str(found["name"]).capitalize()
    )
    rows = [
        [row["case"], required(row), figure(row["measured"], 6), str(row["unit"]), outcome(row)]
        for row in found["rows"]
    ]
    return [
        f"## {heading}",
        "",
        *sentences(found.get("notes", ())),
        "",
        *table(["case", "required", "found", "unit", ""], rows),
        "",
    ]


_SECTION_WRITERS: Mapping[str, Callable[[Mapping[str, Any]], list[str]]] = {
    "calibration": _calibration_section,
    "adversarial": _adversarial_section,
}


def read_tables(path: Path) -> list[Mapping[str, Any]]:
    """Return the benchmark tables of a file that `dpwitness bench NAME --json` printed. Raises
    InvalidArgument for other files.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"{path} must be JSON of `dpwitness bench`: {error}") from None
    tables = found if isinstance(found, list) else [found]
    for entry in tables:
        if not (
            isinstance(entry, dict)
            and isinstance(entry.get("rows"), list)
            and isinstance(entry.get("name"), str)
        ):
            raise InvalidArgument(
                f"{path} must hold tables with name and rows, as `dpwitness bench NAME "
                "--json` prints them"
            )
        for row in entry["rows"]:
            row["measured"] = float(row["measured"])  # JSON has infinity as a text
    return tables


def read_table(path: Path, name: str) -> Mapping[str, Any]:
    """Return the one table of a benchmark with its details from a file. Raises InvalidArgument if
    there is not exactly one.
    """
    found = [entry for entry in read_tables(path) if entry["name"] == name and entry.get("details")]
    if len(found) != 1:
        raise InvalidArgument(
            f"{path} must hold one table of `dpwitness bench {name}` with its details, got "
            f"{len(found)}"
        )
    return found[0]


def main(arguments: Sequence[str], echo: Callable[[str], Any] = print) -> int:
    """Write the page from the command-line arguments: the output file, then JSON of benchmarks and
    sections in markdown.
    """
    if len(arguments) < 2:
        echo("usage: python -m dpwitness.benchmarks.pages.trust_page OUT.md FILE.json|FILE.md ...")
        return 2
    out, *files = map(Path, arguments)
    tables = [entry for path in files if path.suffix != ".md" for entry in read_tables(path)]
    sections = [path.read_text(encoding="utf-8") for path in files if path.suffix == ".md"]
    write_text(out, page(tables, sections))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
