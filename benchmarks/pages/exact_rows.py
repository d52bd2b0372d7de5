"""Sections of the third-party page without statistics: accountants and transformations, newest
releases, and names without an audit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.wording import count
from dpwitness.reports.wording import code, escaped_markdown, table, verdict

_SHOWN = 15  # public names that the page lists


def upstream(
    row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], newest: Mapping[str, str]
) -> str:
    """Return whether a finding is in later releases: by its witness, compared again there, or by
    the audits of the same target there.
    """
    later = {
        other["version"]: other["verdict"]
        for other in rows
        if (other["library"], other["target"]) == (row["library"], row["target"])
        and order_of_release(other["version"]) > order_of_release(row["version"])
    }
    again = {v: found["verdict"] for v, found in row.get("again", {}).items() if v in later}
    found = sorted((again or later).items(), key=lambda item: order_of_release(item[0]))
    last = next((v for v, there in reversed(found) if there == "VIOLATED"), "")
    gone = (
        v
        for v, there in found
        if there in ("NOT_REFUTED", "CERTIFIED") and order_of_release(v) > order_of_release(last)
    )
    after, known = next(gone, ""), newest.get(row["library"], "")
    if after and again:
        other_way = "; another witness holds there" if later[after] == "VIOLATED" else ""
        return f"repaired since {after}{other_way}"
    if after or last:
        return f"not found in {after}" if after else f"still in {last}"
    if known == row["version"]:
        return "in the newest release"
    return f"{known} was not audited" if known else "unknown"


def order_of_release(version: str) -> list[int]:
    """Return the numbers of a release, by which releases are sorted."""
    return [int(part) for part in re.findall(r"\d+", version)]


def section(exact: Json, rows: Sequence[Json]) -> list[str]:
    """Return the sections of the page: rows without statistics, refuted rows and newest releases,
    and names without an audit.
    """
    every = [*rows, *exact["rows"]]
    violated = [row for row in every if row["verdict"] == "VIOLATED"]
    releases = {(row["library"], row["version"]) for row in every if "dev" not in row["version"]}
    lines = [
        [
            f"{row['library']} {row['version']}",
            code(row["target"]),
            row["kind"],
            verdict(row["verdict"]).lower(),
            _seen(row),
        ]
        for row in exact["rows"]
    ]
    states = {
        (row["library"], row["version"], row["target"]): upstream(row, every, exact["newest"])
        for row in violated
    }
    status = [
        [f"{library} {version}", code(target), state]
        for (library, version, target), state in states.items()
    ]
    distinct = {(row["library"], row["target"]) for row in violated}
    counted = [each["library"] for each in exact["uncovered"]]
    others = sorted({row["library"] for row in every} - set(counted), key=str.lower)
    return [
        "## Without statistics",
        "Accountants are compared with exact figures, and transformations with their "
        "stability maps, in exact arithmetic. A row that is "
        "*inconclusive* is an error on one of two neighbors only, or a case that the "
        "documentation leaves open. Together with the rows of "
        f"runs, {len(violated)} of {len(every)} rows are refuted at the level of values "
        f"({len(distinct)} targets, some in several "
        f"releases), in {len(releases)} releases that were audited.",
        "\n".join(table(["release", "target", "kind", "verdict", "finding"], lines)),
        *_failed(exact.get("failed", {})),
        "## Refuted rows and newest releases",
        f"Newest releases of the package index on {exact['checked']}. *Repaired since* a release: "
        "the figure at the row's parameters is not too low there, nor in a later release; a "
        "version with *dev* is a state of the library's repository. *Not found in* a release: "
        "the same target was audited there and nothing was found.",
        "\n".join(table(["release", "target", "state"], status)),
        "## Not audited",
        "Public functions and classes of a library, by discovery in its interpreter, whose "
        "names no target file of the adapter mentions. "
        "A name that is mentioned may be audited with some of its arguments only.",
        "\n".join(
            _uncovered_line(each)
            for each in sorted(exact["uncovered"], key=lambda each: str(each["library"]).lower())
        ),
        "Public names of these libraries and programs were not counted; the targets of their "
        "rows are all that was audited of them: "
        f"{', '.join(others)}.",
    ]


def _failed(failures: Mapping[str, str]) -> list[str]:
    """Return what could not be audited, a line for each source."""
    lines = [
        f"- {escaped_markdown(name)}: {escaped_markdown(line)}" for name, line in failures.items()
    ]
    return ["Could not be audited:", "\n".join(lines)] if lines else []


def _seen(row: Json) -> str:
    return (
        escaped_markdown("; ".join(part for part in (row["finding"], row["cause"]) if part)) or "-"
    )


def _uncovered_line(found: Json) -> str:
    others = found["others"]
    more = f" and {count(len(others) - _SHOWN)} more" if len(others) > _SHOWN else ""
    release = f"{found['library']} {found.get('version', '')}".strip()
    names = ", ".join(map(code, others[:_SHOWN]))
    return (
        f"- **{release}**: {count(len(others))} of {count(found['public'])} public names: "
        f"{names}{more}"
    )
