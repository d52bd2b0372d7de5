"""Page that compares the frozen findings of library scans with the issues of the libraries'
trackers.

``python -m dpwitness.benchmarks.pages library-scans FOLDER [SCAN.json]`` writes
``library-scans.md``. The JSON of `dpwitness bench scan`, if given, has a new search, which becomes
``library-scans.json``. All numbers come from the JSON files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from dpwitness.benchmarks.pages.bench_pages import read_table
from dpwitness.benchmarks.scan.opendp import findings, issues, unnamed, without_verdict
from dpwitness.core.values.atomic_files import write_json, write_text
from dpwitness.core.values.json_reader import Json, read_json
from dpwitness.core.values.wording import figure
from dpwitness.reports.wording import code, escaped_markdown, table, truncated_line

_INTRODUCTION = (
    "A scan builds programs from a library's signatures, and searches neighboring datasets "
    "on which the exact result moves further than "
    "the library claims, or on only one of which an error occurs. The findings of a release "
    "are frozen in a file before the library's "
    "issue tracker is read; then they are compared with its issues."
)
_TRACKER = (
    "Issues are those of github.com/opendp/opendp that report a privacy bug since September "
    "2026, as found by topic in a copy of the "
    "tracker, {first} to {last}. No issue with the numbers 2928, 2931, 2934, 2943 and 2947, "
    "or after 2954, was found in the copy; more "
    "bugs may be reported there. Not counted are requests for documentation (2932) and "
    "earlier issues. No pull request that repairs one of "
    "the counted bugs was found. An issue is a *hit* only if a finding has the same cause."
)
_LIMITS = (
    "The comparison has limits. The scenes and values of the search are choices, and some "
    "aim at a suspected fault. A *directed* finding "
    "comes from a query that was chosen after reading the source of the release. That the "
    "tracker was read after the freeze is a statement "
    "of the project; the file of findings has not changed since. All witnesses were run "
    "again for this page, and hold."
)
_ABSENCE = (
    "A finding without an issue is a candidate for a new bug: the copy of the tracker may be "
    "incomplete, and the maintainers have not "
    "confirmed it. Several findings can have one repair: those whose error depends on one "
    "user share the list of expressions that "
    "OpenDP takes for infallible, and three joins share one function."
)
_NEW = (
    "A new search of release {release} on {date}, with the drawn seed {seed}, tried {tried} in "
    "{search} s of CPU time, the library's processes included. The table has one query for each "
    "kind of finding and set of calls, the smallest one that shows the finding; several queries "
    "can have one cause, and many causes are those of frozen findings. An audit of each finding, "
    "{audits} s of CPU time together, decides: {verdicts}. Without a verdict: {lost} of the "
    "{count} findings. A privacy map of 0 is audited as a stability map of 0: the outputs of both "
    "inputs must have equal laws. INCONCLUSIVE is an error on one input only; NOT_REFUTED is an "
    "excess that the audit did not find, for example one by rounding."
)
_MOST = 18  # findings of a new search that the page shows
_CLAIMS = {  # finding: why the claim is the library's claim, confirmed in the source of the release
    "join-on-part-of-keys": (
        "A join with public keys replaces the protection of the keys: the proof in the "
        "release says that the join sanitizes the keys, and "
        "without a join the same query is refused as having a private key set. "
        "`match_group_by` compares the columns of the join only with "
        "the columns of the public frame, never with the grouping columns. With "
        "`group_by('g', 'x')` and a join on `g`, the values of `x` "
        "are released exactly, and the privacy map is finite under pure differential privacy."
    ),
    "join-keeps-both-keys": (
        "The same proof says that filling the missing values hides which groups do not exist "
        "in the data. The fill expressions "
        "cover the aggregated columns only, and the options of the join are passed on "
        "unchanged. With `coalesce=False`, the output keeps "
        "the key column of the private side, which is null exactly where a group is absent."
    ),
    "key-margin-of-overwritten-column": (
        "A margin with `invariant='keys'` declares the keys of one grouping as public, and a "
        "grouping may be an expression. "
        "`make_h_stack` says that it keeps margins only of columns that have not changed, "
        "but it compares whole expressions: a margin by "
        "`col('x').alias('g')` is not equal to `col('x')`, and stays after `x` is "
        "overwritten by a private column. The keys of "
        "the private column are then released exactly. Issue 2949 reports a related fault, "
        "of bounds instead of margins."
    ),
    "fill-restores-lengths": (
        "`drop_nulls`, `drop_nans` and `filter` reduce the invariant of a margin from "
        "lengths to keys, because the number of remaining "
        "rows is private. `make_expr_fill_null` and `make_expr_fill_nan` then set the "
        "context of their output to that of their input "
        "before the rows were dropped. The sum after it is charged as a sum of known length, "
        "and its sensitivity is too small."
    ),
    "uint32-literal-overflow": (
        "OpenDP refuses a sum that may overflow, so an accepted sum claims that no overflow "
        "occurs. The check uses the type that Polars "
        "gives to an operation of two columns, with the literal as a typed column; Polars "
        "itself keeps the 32-bit type of the "
        "column. The check therefore passes for a 64-bit type, and the sum wraps around at 2^32."
    ),
}


def page(
    found: Sequence[Mapping[str, Any]],
    tracker: Sequence[Mapping[str, Any]],
    search: Json | None = None,
) -> str:
    """Return the markdown of the page from the frozen findings, the issues of the tracker, and a
    new search.
    """
    new, dates = unnamed(), [row["date"] for row in tracker]
    lines = [
        "# Scans of libraries",
        "",
        _INTRODUCTION,
        "",
        "## OpenDP 0.16.0",
        "",
        _counts(found, tracker, len(new)),
        "",
    ]
    lines += [
        _TRACKER.format(first=min(dates), last=max(dates)),
        "",
        _LIMITS,
        "",
        "### Issues of the tracker",
        "",
    ]
    directed = {row["name"] for row in found if row["search"] == "directed"}
    lines += table(
        ("issue", "date", "title", "result", "findings, or reason of the miss"),
        [_issue(row, directed) for row in tracker],
    )
    lines += ["", "### Findings that no issue names", "", _ABSENCE, ""]
    lines += table(
        ("finding", "cause", "witness", "confidence", "search"), [_finding(row) for row in new]
    )
    lines += ["", "### Why these are claims of the library", ""]
    lines += ["The strongest of these findings, checked in the source of the release:", ""]
    lines += [
        f"- **{name}.** {text}"
        for name, text in _CLAIMS.items()
        if name in {row["name"] for row in new}
    ]
    lines += _new_search(search) if search else []
    return "\n".join([*lines, ""])


def _new_search(search: Json) -> list[str]:
    """Return the section on a new search: its budget, its counts, and its first findings."""
    shown, spent, tried = search["findings"], search["cpu seconds"], search["tried"]
    verdicts = Counter(each["verdict"] for each in shown if each["verdict"])
    text = _NEW.format(
        **{key: search[key] for key in ("release", "date", "seed")},
        **{key: spent[key] for key in ("search", "audits")},
        tried=", ".join(f"{n:,} {part}" for part, n in tried.items() if n and part != "findings"),
        verdicts=", ".join(f"{n} {verdict}" for verdict, n in verdicts.most_common()),
        lost=len(without_verdict(shown)),
        count=len(shown),
    )
    worst_first = sorted(shown, key=lambda each: each["verdict"] != "VIOLATED")
    rows = map(_new_finding, worst_first[:_MOST])
    head = ("query", "inputs", "map allows", "found", "verdict")
    rest = f"[All {len(shown)} findings](library-scans.json), with the headlines of the audits."
    return ["", "### A new search", "", text, "", *table(head, rows), "", rest]


def _new_finding(found: Json) -> tuple[str, ...]:
    return (
        code(_middle_out(found["program"], 120)),
        code(_middle_out(" / ".join(found["inputs"]), 90)),
        escaped_markdown(truncated_line(found["allowed"], 40)),
        escaped_markdown(truncated_line(found["shown"], 60)),
        found["verdict"] or "none",
    )


def _middle_out(text: str, most: int) -> str:
    """Return a text of which the middle is left out if it is long."""
    return text if len(text) <= most else f"{text[: most // 2]} ... {text[-most // 2 :]}"


def _counts(
    found: Sequence[Mapping[str, Any]], tracker: Sequence[Mapping[str, Any]], new: int
) -> str:
    undirected = {row["name"] for row in found if row["search"] == "scan"}
    hits = [row for row in tracker if row["found_by"]]
    blind = sum(not undirected.isdisjoint(row["found_by"]) for row in hits)
    return (
        f"{len(found)} frozen findings. {len(hits)} of {len(tracker)} issues are hits and "
        f"{len(tracker) - len(hits)} are misses; {blind} "
        f"of the hits come from the undirected scan, {len(hits) - blind} from directed "
        f"queries. No issue names {new} of the findings."
    )


def _issue(row: Mapping[str, Any], directed: set[str]) -> tuple[str, ...]:
    names = ", ".join(
        f"{name} (directed)" if name in directed else name for name in row["found_by"]
    )
    return (
        str(row["issue"]),
        row["date"],
        row["title"],
        "hit" if names else "**miss**",
        names or row["miss"],
    )


def _finding(row: Mapping[str, Any]) -> tuple[str, ...]:
    witness = f"{code(truncated_line(row.get('plan') or row['build'], 150))}: {_shown(row)}"
    return (
        row["name"],
        escaped_markdown(row["cause"]),
        witness,
        escaped_markdown(row["confidence"]),
        row["search"],
    )


def _shown(row: Mapping[str, Any]) -> str:
    """Return the finding of a witness in a few words."""
    if row["kind"] in ("error", "abort"):
        return f"{row['kind']} on one of two neighbors only"
    if row["kind"] == "bound":
        return f"bound exceeded, {escaped_markdown(row['found'])}"
    name = {"support": "distance of possible outputs", "epsilon of a ratio": "probabilities"}.get(
        row["kind"], row["kind"]
    )
    if row["kind"] == "epsilon of a ratio":
        return "the claimed epsilon is 0, the probabilities differ"
    return f"{name} {_number(row['found'])}, claimed {_number(row['allowed'])}"


def _number(text: Any) -> str:
    """Format a distance, a fraction as a decimal number; other text stays as it is."""
    try:
        return figure(float(Fraction(str(text))), 10)
    except ValueError:
        return "infinite" if text == "inf" else escaped_markdown(str(text))


def write(folder: Path, file: str = "") -> None:
    """Write ``library-scans.md`` into a folder, and ``library-scans.json`` if a file has a new
    search.
    """
    place = folder / "library-scans.json"
    for detail in read_table(file, "scan").details if file else ():
        if "findings" in detail:
            write_json(place, detail)
    search = read_json(place) if place.exists() else None
    write_text(folder / "library-scans.md", page(findings(), issues(), search))
