"""Summary of the papers: counts of claims by verdict, claims that fail and by how much, repairs,
and advice to users, for each paper.

All content of the page comes from the findings. The advice to users is written by the project. A
sentence of advice is printed only if its finding has the expected verdict.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dpwitness.auditors.witnesses.verdicts import environment
from dpwitness.benchmarks.pictures import drawing
from dpwitness.core.values.atomic_files import write_json, write_text
from dpwitness.core.values.json_reader import Json, read_json
from dpwitness.core.values.wording import figure, number
from dpwitness.proofs_checks.engine.finding import scope_summary
from dpwitness.reports.report import check_writable
from dpwitness.reports.wording import code, escaped_markdown, slugs, table

_LOW, _HIGH = 1e-3, 1e3  # numbers outside this range are drawn as arrows


def plot_claims(findings: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draw value / promise of each claim on a log scale, one row per claim, with the promise at 1.

    A filled marker is the proved lower bound of a claim that fails. An open marker is the upper
    endpoint of the enclosure otherwise.
    """
    rows = [f for f in findings if f.get("reached")]
    with drawing(path, 7.0, 1.0 + 0.2 * len(rows)) as axes:
        for row, found in enumerate(reversed(rows)):
            low, high = (1 + (number(end) or 0.0) for end in found["reached"])
            low, high = (
                min(max(end, _LOW), _HIGH) if math.isfinite(end) else _HIGH for end in (low, high)
            )
            fails = found["verdict"] == "FAILS"
            proved = low if fails else high
            axes.plot([low, high], [row, row], color="black", linewidth=1)
            marker = ">" if proved >= _HIGH else "<" if proved <= _LOW else "o"
            axes.plot(
                [proved],
                [row],
                marker,
                color="black",
                markerfacecolor="black" if fails else "white",
                markersize=6,
            )
        axes.set_yticks(range(len(rows)), [str(f["id"]) for f in reversed(rows)])
        axes.set_ylim(-0.7, len(rows) - 0.3)
        axes.axvline(1.0, color="black", linestyle=":", linewidth=1)
        axes.set_xscale("log")
        axes.set_xlabel("reached / promised (filled: the claim fails)")


Finding = Mapping[str, Any]

PAPERS: Json = tomllib.loads((Path(__file__).parent / "papers.toml").read_text(encoding="utf-8"))
_HOLDS = ("HOLDS", "HOLDS_TIGHT")
_VERDICT_PHRASES = (  # (verdicts, column, phrase for one claim, phrase for several claims)
    (_HOLDS, "hold", "holds", "hold"),
    (("FAILS",), "false", "is false", "are false"),
    (("UNDERSPECIFIED",), "constant open", "leaves a constant open", "leave a constant open"),
    (
        ("VACUOUS",),
        "vacuous",
        "is true but says nothing at practical sizes",
        "are true but say nothing at practical sizes",
    ),
    (
        ("NOT_REFUTED",),
        "not refuted",
        "was measured and not refuted",
        "were measured and not refuted",
    ),
    (("INCONCLUSIVE",), "not settled", "could not be settled", "could not be settled"),
)
_METHOD = (
    "Each claim of a paper is a formula over a domain, and one check decides it. *False*: there is "
    "a counterexample, which can be replayed. *Hold*: proved for the values that the check names. "
    "*Constant open*: the claim leaves a constant open, and the smallest that works is computed. "
    "*Not refuted*: measured, and nothing was found against it. The tables below name the claims "
    "that are false, with a link to the counterexample, or leave something open."
)
_DATA = (
    "[papers.json](papers.json) has the formula, domain, method, evidence, numbers and proof of "
    "every claim. `dpwitness claims show ID` prints one, `dpwitness claims check ID` checks it "
    "again, `dpwitness replay FILE` replays a counterexample, and `dpwitness claims check all "
    "--report DIR` makes this page."
)


def page(document: Json) -> str:
    """Return the markdown of the summary of all papers from the JSON of ``papers.json``."""
    findings = document["claims"]
    papers = {
        paper["title"]: (prefix, paper, own)
        for prefix, paper in PAPERS.items()
        if (own := [f for f in findings if _prefix(f) == prefix])
    }
    found = {f["verdict"] for f in findings}
    shown = [phrase for phrase in _VERDICT_PHRASES if found & {*phrase[0]}]
    rows = []
    for title, (_, _, own) in papers.items():
        words = [f["verdict"] for f in own]
        counts = (sum(map(words.count, verdicts)) for verdicts, *_ in shown)
        rows.append((title, str(len(own)), *(str(n or "") for n in counts)))
    fails = sum(f["verdict"] == "FAILS" for f in findings)
    lines = [
        f"# Papers: {fails} of {len(findings)} claims are false",
        "",
        f"**{tally(findings)}** {scope_summary(findings)}",
        "",
        _METHOD,
        "",
        *table(("paper", "claims", *(column for _, column, *_ in shown)), rows),
        "",
        _DATA,
        "",
    ]
    for prefix, paper, own in papers.values():
        lines += _paper_section(prefix, paper, own)
    versions = ", ".join(
        f"{name} {version}"
        for name, version in document["environment"].items()
        if name != "machine"
    )
    return "\n".join([*lines, f"Computed with {versions}."]).rstrip() + "\n"


def _paper_section(prefix: str, paper: Mapping[str, Any], findings: Sequence[Finding]) -> list[str]:
    verdicts = {str(f["id"]): f["verdict"] for f in findings}
    lines = [f"## {paper['title']}", "", paper["about"], ""]
    advice = [text for id, needed, text in paper["advice"] if verdicts.get(id) == needed]
    if advice:
        lines += ["Advice to users of these algorithms:", "", *(f"- {x}" for x in advice), ""]
    if _has_plot(findings):
        lines += [
            "![Reached over promised: a filled mark right of the line is a false claim]"
            f"(papers-{prefix.lower()}.svg)",
            "",
        ]
    shown = [f for f in findings if f["verdict"] not in (*_HOLDS, "NOT_REFUTED")]
    if shown:
        lines += [
            *table(
                ("claim", "it says", "reached / promised, or why", "repair"),
                [_table_row(f, findings) for f in shown],
            ),
            "",
        ]
    return lines


def _table_row(found: Finding, findings: Sequence[Finding]) -> tuple[str, ...]:
    file, name = found.get("witness_file"), code(found["id"])
    least = 1 + (number((found.get("reached") or [None])[0]) or 0.0)
    if not found.get("reached"):
        short = (
            str(found["headline"]).partition(": ")[2].partition("; ")[0].partition(" (limits")[0]
        )
    else:
        short = f"{figure(least)} times" if math.isfinite(least) else "no bound"
    repairs = [
        code(f["id"])
        for f in findings
        if f.get("repairs") == found["id"] and f["verdict"] in _HOLDS
    ]
    return (
        f"[{name}]({file})" if file else name,
        escaped_markdown(found["statement"]),
        escaped_markdown(short),
        ", ".join(repairs),
    )


def tally(findings: Sequence[Finding]) -> str:
    """Return a sentence that counts the claims by verdict.

    Examples
    --------
    >>> tally([{"verdict": "HOLDS"}, {"verdict": "HOLDS_TIGHT"}, {"verdict": "FAILS"}])
    '3 claims: 2 hold (1 of them attains its promise) and 1 is false.'
    """
    words = [str(f["verdict"]) for f in findings]
    parts = []
    for verdicts, _, one, several in _VERDICT_PHRASES:
        if found := sum(map(words.count, verdicts)):
            parts.append(f"{found} {one if found == 1 else several}")
            if tight := words.count("HOLDS_TIGHT") * ("HOLDS_TIGHT" in verdicts):
                parts[-1] += (
                    f" ({tight} of them {'attains its' if tight == 1 else 'attain their'} promise)"
                )
    listed = " and ".join(part for part in (", ".join(parts[:-1]), *parts[-1:]) if part)
    return f"{len(findings)} claim{'s' * (len(findings) != 1)}: {listed or 'none was checked'}."


def write(findings: Sequence[Finding], folder: Path | str) -> Path:
    """Write the report on the papers and return the path of ``papers.md``.

    The files are ``papers.md``, ``papers.json``, one plot per paper, and
    ``papers/witness-ID.json`` for each claim that fails with a witness.
    """
    path = check_writable(folder)
    check_writable(path / "papers")
    published = []
    for found in findings:
        (slug,) = slugs([str(found["id"])])
        file = f"papers/witness-{slug}.json" if found.get("witness") else None
        published.append(
            {key: value for key, value in found.items() if key not in ("witness", "environment")}
            | {"witness_file": file}
        )
        if file:
            write_json(path / file, found["witness"])
    document = {"schema_version": 1, "environment": environment(), "claims": published}
    write_json(path / "papers.json", document)
    return rewrite(path)


def rewrite(folder: Path) -> Path:
    """Write ``papers.md`` and its plots from the published ``papers.json``; return its path."""
    document = read_json(folder / "papers.json", "publish")
    for prefix in PAPERS:
        own = [f for f in document["claims"] if _prefix(f) == prefix]
        if _has_plot(own):
            plot_claims(own, folder / f"papers-{prefix.lower()}.svg")
    write_text(folder / "papers.md", page(document))
    return folder / "papers.md"


def _has_plot(findings: Sequence[Finding]) -> bool:
    return any(f.get("reached") for f in findings)


def _prefix(found: Finding) -> str:
    return str(found["id"]).partition("-")[0]
