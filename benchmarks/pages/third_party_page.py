"""Page of the audits of third-party libraries, made from the JSON file of the suite or from the
page's own JSON file.

``python -m dpwitness.benchmarks.pages third-party reports/published DIR...`` publishes reports of
``dpwitness suite third-party --report DIR``. ``python -m dpwitness.benchmarks.pages
third-party-exact reports/published ADAPTER=PYTHON... FINDINGS.json...`` audits declared accountants
of adapters, each with an interpreter that has its library, adds findings of scans, asks the package
index for the newest releases, and writes the page again. Rows of other sources stay.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from dpwitness.benchmarks.pages.exact_audits import (
    exact_parts,
    newest_release,
    order_of_release,
    upstream,
)
from dpwitness.core.values.atomic_files import write_json, write_text
from dpwitness.core.values.json_reader import Json, read_json
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.core.values.wording import figure
from dpwitness.reports.wording import code, escaped_markdown, table

Found = Json


def page(found: Found) -> str:
    """Return the markdown of the summary from the JSON of the page."""
    exact = found.get("exact") or {"rows": [], "newest": {}, "uncovered": [], "failed": {}}
    every = [*found["rows"], *exact["rows"]]
    ordered = sorted(every, key=lambda row: (row["library"], order_of_release(row["version"])))
    violated = list(
        {(row["library"], row["target"]): row for row in ordered if _violated(row)}.values()
    )
    blocks = [
        f"# Libraries: {sum(map(_violated, every))} of {len(every)} audits find a violation",
        *_introduction_paragraphs(found, every, violated),
        "\n".join(_releases_table(every)),
        "## Violated by values",
        _states_sentence(violated, every, exact["newest"]),
        "\n".join(
            table(
                ("release", "target", "found", "cause"),
                [_violation_row(row, found["witnesses"]) for row in violated],
            )
        ),
        "## Not audited",
        *_not_audited(exact, found["missing"]),
    ]
    return "\n\n".join(blocks) + "\n"


def _violated(row: Found) -> bool:
    return bool(row["verdict"] == "VIOLATED")


def _by_bits(row: Found) -> bool:
    return not _violated(row) and row.get("bit_verdict") == "VIOLATED"


def _introduction_paragraphs(
    found: Found, every: Sequence[Found], violated: Sequence[Found]
) -> list[str]:
    rows, settings = found["rows"], found["settings"]
    known = [row for row in rows if row["right"] is not None]
    wrong = sum(row["right"] is False for row in known)
    traces = [row["gray_box"] for row in rows if _violated(row) and row.get("gray_box")]
    shown = sum(bool(trace["findings"]) for trace in traces)
    releases = {(row["library"], row["version"]) for row in every}
    return [
        f"{sum(map(_by_bits, every))} more find a distinction by float rounding only. An audit "
        "is of one call of one "
        f"release with one claim: {len(rows)} rows count runs of a mechanism, and "
        f"{len(every) - len(rows)} compare an accountant or a stability map with exact figures. "
        f"The rows are of {len(releases)} releases; {len(violated)} targets are violated, some in "
        "several releases.",
        f"The true privacy of {len(known)} of the mechanisms is known by analysis, and "
        f"{len(known) - wrong} verdicts agree with it, {wrong} do not. Every audit chose its pair "
        f"of datasets by itself, at confidence {settings['confidence']}. A trace of at most "
        f"{max(trace['runs'] for trace in traces)} runs points to the cause in {shown} of the "
        f"{len(traces)} violated mechanisms that it can record."
        if traces
        else "Every audit chose its pair of datasets by itself.",
        "A violated row is an observation that `dpwitness replay WITNESS` repeats, not a judgment "
        "on a library; a row without a violation proves no privacy. Where the documentation does "
        "not name the neighboring relation, several were tried. *Float rounding* is "
        "distinguishable where noise is added in floating point and not rounded to a grid; it is "
        "not counted as a violation by values.",
        "[third-party.json](third-party.json) has every row with its pair, event, bound, limit, "
        "cost and trace. Made by `dpwitness suite third-party --report DIR`, after `dpwitness "
        "targets setup NAME...`.",
    ]


def _releases_table(every: Sequence[Found]) -> list[str]:
    """Return the table with the number of rows of each release by outcome."""
    groups: dict[str, list[Found]] = {}
    for row in every:
        groups.setdefault(f"{row['library']} {row['version']}", []).append(row)
    cells = []
    for release, rows in sorted(groups.items(), key=lambda item: item[0].lower()):
        open_rows = sum(row["verdict"] in ("ERROR", "INCONCLUSIVE") for row in rows)
        counts = (sum(map(_violated, rows)), sum(map(_by_bits, rows)), open_rows)
        cells.append((release, str(len(rows)), *(str(n or "") for n in counts)))
    return table(("release", "rows", "violated", "float rounding only", "no verdict"), cells)


def _states_sentence(
    violated: Sequence[Found], every: Sequence[Found], newest: Mapping[str, str]
) -> str:
    """Return how many of the violated targets are repaired in a later release."""
    states = [upstream(row, every, newest) for row in violated]
    repaired = sum(state.startswith(("repaired", "not found")) for state in states)
    there = sum(state.startswith(("still", "in the newest")) for state in states)
    return (
        f"The last audited release of each violated target. {repaired} are not found in a later "
        f"release, {there} are in the newest release, and for {len(states) - repaired - there} the "
        "newest release was not audited. A name with a link is that of a witness."
    )


def _violation_row(row: Found, witnesses: str) -> list[str]:
    name, finding = code(row["target"]), str(row.get("finding", ""))
    if "parameter_lower" in row:
        finding = (
            f"{row['parameter']} > {figure(row['parameter_lower'])}, claimed {code(row['claim'])}"
        )
    else:  # without the case in parentheses, and without bounds that are objects
        finding = escaped_markdown(finding.partition(" (")[0].partition(", claimed [")[0])
    return [
        f"{row['library']} {row['version']}",
        f"[{name}]({witnesses}{row['witness']})" if isinstance(row.get("witness"), str) else name,
        finding.removeprefix("the accountant returns "),
        escaped_markdown(_first_clause(row["cause"])),
    ]


def _first_clause(text: str) -> str:
    """Return a text up to its first full stop, semicolon or colon before a space.

    Examples
    --------
    >>> _first_clause("The noise of 0.5 is halved: both are compared. Always.")
    'The noise of 0.5 is halved'
    """
    return re.split(r"[.;:](?=\s|$)", text)[0]


def _not_audited(exact: Found, missing: Mapping[str, str]) -> list[str]:
    """Return the number of public names that no target mentions, and what could not be run."""
    libraries = [
        f"{each['library']} ({len(each['others'])} of {each['public']})"
        for each in sorted(exact["uncovered"], key=lambda each: str(each["library"]).lower())
    ]
    failures = {**missing, **exact["failed"]}
    return [
        "Public functions and classes whose names no target file mentions, by library: "
        f"{', '.join(libraries) or 'not counted'}. A name that is mentioned may be audited with "
        "some of its arguments only.",
        *([f"Not run: {'; '.join(map(escaped_markdown, failures))}."] if failures else []),
    ]


def _write(found: Found, folder: Path) -> None:
    write_json(folder / "third-party.json", found)
    write_text(folder / "third-party.md", page(found))


def write(folder: Path, *reports: str) -> None:
    """Publish reports of the suite: the page, its JSON, and the witnesses in a folder
    ``third-party``; without reports, the page again.

    Rows of later reports replace rows of earlier reports.

    Raises
    ------
    InvalidArgument
        If a folder does not contain a report of the suite.
    """
    if not reports:
        _write(read_json(folder / "third-party.json", "publish"), folder)
        return
    together: Found = {}
    rows: dict[str, tuple[Found, Path]] = {}
    for report in map(Path, reports):
        source = report / "third-party.json"
        if not source.is_file():
            raise InvalidArgument(
                "reports must be folders that `dpwitness suite third-party --report` wrote, "
                f"got {str(report)!r}"
            )
        found = read_json(source, "publish")
        together = found | {"missing": together.get("missing", {}) | found["missing"]}
        rows |= {row["name"]: (row, report) for row in found["rows"]}
    together["rows"] = sorted(
        (row for row, _ in rows.values()), key=lambda row: int(row["key"][1:] or 1000)
    )
    together["missing"] = {
        name: line for name, line in together["missing"].items() if name not in rows
    }
    together["witnesses"] = "third-party/"
    if (folder / "third-party.json").is_file():
        before = read_json(folder / "third-party.json", "publish")
        together |= {key: before[key] for key in before.keys() & {"exact"}}
    shutil.rmtree(folder / "third-party", ignore_errors=True)
    (folder / "third-party").mkdir(parents=True)
    for row, report in rows.values():
        if row["witness"]:
            name = Path(row["witness"]).name
            shutil.copy(report / name, folder / "third-party" / name)
    _write(together, folder)


def rewrite(folder: Path, *sources: str) -> None:
    """Write the published page after each source of `exact_parts`, and at the end with the newest
    release of each refuted library.
    """
    found = read_json(folder / "third-party.json", "publish")
    before = found.get("exact") or {}
    for name, exact in exact_parts(sources, before):
        _write(found | {"exact": {"newest": {}} | exact}, folder)
        print(f"{name}: {exact['failed'].get(name, 'done')}", flush=True)
    refuted = [
        row["library"] for row in (*found["rows"], *exact["rows"]) if row["verdict"] == "VIOLATED"
    ]
    newest = {library: newest_release(library) for library in dict.fromkeys(refuted)}
    _write(found | {"exact": exact | {"newest": newest}}, folder)
