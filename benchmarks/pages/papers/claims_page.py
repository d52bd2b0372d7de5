"""Report on the papers: claims that hold, claims that fail and by how much, repairs, and advice to
users, for each paper.

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
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.wording import figure, number
from dpwitness.proofs_checks.engine.finding import scope_summary
from dpwitness.reports.report import check_writable
from dpwitness.reports.wording import code, escaped_markdown, slugs, table, verdict

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
        axes.set_yticks(range(len(rows)), [str(f["id"]) for f in reversed(rows)], fontsize=8)
        axes.set_ylim(-0.7, len(rows) - 0.3)
        axes.axvline(1.0, color="black", linestyle=":", linewidth=1)
        axes.set_xscale("log")
        axes.set_xlabel("reached / promised (filled: the claim fails)")


Finding = Mapping[str, Any]

PAPERS: Json = tomllib.loads((Path(__file__).parent / "papers.toml").read_text(encoding="utf-8"))

CHECKS = "papers-checks.md"
_COLUMNS = ("claim", "says", "for", "found", "rests on")
_VERDICT_PHRASES = (  # (verdicts, phrase for one claim, phrase for several claims)
    (("HOLDS", "HOLDS_TIGHT"), "holds", "hold"),
    (("FAILS",), "is false", "are false"),
    (("UNDERSPECIFIED",), "leaves a constant open", "leave a constant open"),
    (
        ("VACUOUS",),
        "is true but says nothing at practical sizes",
        "are true but say nothing at practical sizes",
    ),
    (("NOT_REFUTED",), "was measured and not refuted", "were measured and not refuted"),
    (("INCONCLUSIVE",), "could not be settled", "could not be settled"),
)
_LEGEND = (
    "FAILS: there is a counterexample, which can be replayed. HOLDS: proved, for the values "
    "that the row names; tight where the promise is "
    "attained. UNDERSPECIFIED: the claim leaves a constant open; the smallest that works is "
    "computed. VACUOUS: true, but says nothing at "
    "practical sizes. NOT REFUTED: measured, and nothing found against it. INCONCLUSIVE: the "
    "check ended without an answer."
)
_EVIDENCE_LEGEND = (
    "Each row states the checked values and the kind of evidence. Whole domain: settled for "
    "all values that the row names; box: "
    "for the share of them that the row gives; point: for these values only. Proved: by "
    "balls, z3 or computer algebra; statistical: at a "
    "stated error; numerical: floating-point sums or quadrature; assumed: as the row says."
)


def page(findings: Sequence[Finding]) -> str:
    """Return the markdown of the report on all papers, from the JSON of the findings."""
    lines = [
        "# The papers' claims, checked",
        "",
        f"**{tally(findings)}** {scope_summary(findings)}",
        "",
        _LEGEND,
        "",
        _EVIDENCE_LEGEND,
        "",
        "Made by `dpwitness claims check all --report DIR`. Every verdict is computed in "
        "that run; the numbers are in "
        "[papers.json](papers.json). A claim is checked again, there or at other parameters, by "
        "`dpwitness claims check ID --set NAME=VALUE`; a witness by `dpwitness replay FILE`.",
        "",
    ]
    for prefix, paper in PAPERS.items():
        own_findings = [f for f in findings if _prefix(f) == prefix]
        if own_findings:
            lines += _paper_section(prefix, paper, own_findings)
    versions = ", ".join(
        f"{name} {version}" for name, version in environment().items() if name != "machine"
    )
    return "\n".join([*lines, f"Computed with {versions}."]).rstrip() + "\n"


def _paper_section(prefix: str, paper: Mapping[str, Any], findings: Sequence[Finding]) -> list[str]:
    by_id = {str(f["id"]): f for f in findings}
    title = paper["title"]
    lines = [f"## {title}", "", paper["about"], ""]
    for heading, verdicts in (
        ("What fails", ("FAILS",)),
        ("What says less than it seems", ("UNDERSPECIFIED", "VACUOUS")),
        ("What could not be settled", ("INCONCLUSIVE",)),
    ):
        rows = [f for f in findings if f["verdict"] in verdicts]
        if rows:
            lines += [
                f"### {heading}",
                "",
                *table((*_COLUMNS, "repair", "witness"), [_table_row(f, findings) for f in rows]),
                "",
            ]
    for heading, verdicts in (
        ("What holds", ("HOLDS", "HOLDS_TIGHT")),
        ("What was measured and not refuted", ("NOT_REFUTED",)),
    ):
        rows = [f for f in findings if f["verdict"] in verdicts]
        if rows:
            lines += [
                f"### {heading}",
                "",
                *table(_COLUMNS, [_table_row(f, findings)[:5] for f in rows]),
                "",
            ]
    advice = [
        text
        for id, needed, text in paper["advice"]
        if id in by_id and by_id[id]["verdict"] == needed
    ]
    if advice:
        lines += [
            "### Advice to users of these algorithms",
            "",
            *(f"- {text}" for text in advice),
            "",
        ]
    lines += (
        [f"![Reached over promised, {title}](papers-{prefix.lower()}.svg)", ""]
        if _has_plot(findings)
        else []
    )
    return lines


def checks_page(findings: Sequence[Finding]) -> str:
    """Return the markdown page of all checks, with the result, method, parameters and proof of each
    check.
    """
    lines = [
        "# The checks behind the papers' claims",
        "",
        "Each check decides one claim of [the page of results](papers.md).",
        "",
    ]
    for found in findings:
        lines += _card(found)
    return "\n".join(lines).rstrip() + "\n"


def _table_row(found: Finding, findings: Sequence[Finding]) -> tuple[str, ...]:
    repairs = [f for f in findings if f.get("repairs") == found["id"]]
    repair_links = "; ".join(
        f"[{code(f['id'])}]({_link(f['id'])}) {verdict(f['verdict']).lower()}: "
        f"{escaped_markdown(f['statement'])}"
        for f in repairs
    )
    file = found.get("witness_file")
    return (
        f"[{code(found['id'])}]({_link(found['id'])})",
        escaped_markdown(found["statement"]),
        escaped_markdown(ranges(found)),
        escaped_markdown(_finding_text(found)),
        escaped_markdown(f"{found['evidence']}, {found['scope']}"),
        repair_links,
        f"[replay]({file})" if file else "",
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
    for verdicts, one, several in _VERDICT_PHRASES:
        if found := sum(map(words.count, verdicts)):
            parts.append(f"{found} {one if found == 1 else several}")
            if tight := words.count("HOLDS_TIGHT") * ("HOLDS_TIGHT" in verdicts):
                parts[-1] += (
                    f" ({tight} of them {'attains its' if tight == 1 else 'attain their'} promise)"
                )
    listed = " and ".join(part for part in (", ".join(parts[:-1]), *parts[-1:]) if part)
    return f"{len(findings)} claim{'s' * (len(findings) != 1)}: {listed or 'none was checked'}."


def ranges(found: Finding) -> str:
    """Describe the parameter values for which a claim was checked."""
    box = ", ".join(
        f"{name} = {figure(low)}" if high == low else f"{name} in [{figure(low)}, {figure(high)}]"
        for name, (low, high) in found["box"].items()
    )
    if not box and found["scope"] == "whole domain":
        return "all values of what the formula names"
    rest = (
        {name: value for name, value in found["at"].items() if name not in found["box"]}
        if found["scope"] == "point"
        else {}
    )
    return (
        "; ".join(
            part
            for part in (box, ", ".join(f"{name} = {_format_value(v)}" for name, v in rest.items()))
            if part
        )
        or "one case"
    )


def _finding_text(found: Finding) -> str:
    """Return a finding's headline without the verdict; the verdict NOT REFUTED stays."""
    word, _, text = str(found["headline"]).partition(": ")
    return f"{word}: {text}" if found["verdict"] == "NOT_REFUTED" else text


def _card(found: Finding) -> list[str]:
    domain = ", ".join(
        f"{name} in [{figure(low)}, {figure(high)}]"
        for name, (low, high) in found["domain"].items()
    )
    reached, undecided = found.get("reached"), (found.get("shares") or {}).get("undecided")
    facts = [
        ("source", escaped_markdown(found["source"])),
        ("claim", escaped_markdown(found["statement"])),
        ("formula", _formula(found["formula"])),
        ("domain", escaped_markdown(domain)),
        ("checked for", escaped_markdown(ranges(found))),
        (
            "scope",
            escaped_markdown(
                found["scope"] + (f", {100 * undecided:.3g} % undecided" if undecided else "")
            ),
        ),
        ("how", escaped_markdown(f"{found['kind']}: {found['method']}")),
        ("rests on", escaped_markdown(found["evidence"])),
        ("reached / promised", _format_ratio(reached) if reached else ""),
        (
            "at",
            escaped_markdown(
                ", ".join(f"{k} = {_format_value(v)}" for k, v in found["at"].items())
            ),
        ),
        (
            "numbers",
            escaped_markdown(
                ", ".join(f"{k} = {_format_value(v)}" for k, v in found["numbers"].items())
            ),
        ),
        (
            "repairs",
            f"[{code(found['repairs'])}](#{_slug(found['repairs'])})"
            if found.get("repairs")
            else "",
        ),
        ("uses", ", ".join(f"[{code(id)}](#{_slug(id)})" for id in found["depends"])),
        (
            "witness",
            f"[{found['witness_file']}]({found['witness_file']})"
            if found.get("witness_file")
            else "",
        ),
    ]
    lines = [
        f'<a id="{_slug(found["id"])}"></a>',
        f"#### {code(found['id'])}: {verdict(found['verdict']).lower()}",
        "",
        escaped_markdown(found["headline"]),
        "",
    ]
    lines += [*table(("", ""), [fact for fact in facts if fact[1]]), ""]
    if found.get("witness_file"):
        lines += ["```", f"dpwitness replay {found['witness_file']}", "```", ""]
    proof = " ".join(str(found["proof"]).split()).replace("<", "&lt;")
    return [
        *lines,
        "<details><summary>Why this check decides</summary>",
        "",
        proof,
        "",
        "</details>",
        "",
    ]


def write(findings: Sequence[Finding], folder: Path | str) -> Path:
    """Write the report on the papers and return the path of ``papers.md``.

    The files are ``papers.md``, ``papers-checks.md``, ``papers.json``, one plot per paper, and
    ``papers/witness-ID.json`` for each claim that fails with a witness.
    """
    path = check_writable(folder)
    check_writable(path / "papers")
    published = []
    for found in findings:
        file = f"papers/witness-{_slug(found['id'])}.json" if found.get("witness") else None
        published.append(
            {key: value for key, value in found.items() if key not in ("witness", "environment")}
            | {"witness_file": file}
        )
        if file:
            write_json(path / file, found["witness"])
    write_json(
        path / "papers.json",
        {"schema_version": 1, "environment": environment(), "claims": published},
    )
    for prefix in PAPERS:
        own_findings = [f for f in published if _prefix(f) == prefix]
        if _has_plot(own_findings):
            from dpwitness.benchmarks.pages.papers.claims_page import plot_claims

            plot_claims(own_findings, path / f"papers-{prefix.lower()}.svg")
    write_text(path / CHECKS, checks_page(published))
    write_text(path / "papers.md", page(published))
    return path / "papers.md"


def _has_plot(findings: Sequence[Finding]) -> bool:
    return any(f.get("reached") for f in findings)


def _formula(text: Any) -> str:
    """Return a formula as a code span, with any "<" unescaped: formulas of claims are trusted
    texts.
    """
    clean = " ".join(str(text).split()).replace("`", "'")
    return f"`{clean}`" if clean else ""


def _format_value(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_format_value(v) for v in value) + "]"
    return (
        value
        if isinstance(value, str)
        else figure(value)
        if isinstance(value, int | float)
        else str(value)
    )


def _format_ratio(reached: Sequence[Any]) -> str:
    low, high = (1 + (number(end) or 0.0) for end in reached)
    return escaped_markdown(
        figure(low, 6) if low == high else f"[{figure(low, 6)}, {figure(high, 6)}]"
    )


def _prefix(found: Finding) -> str:
    return str(found["id"]).partition("-")[0]


def _link(id: Any) -> str:
    return f"{CHECKS}#{_slug(id)}"


def _slug(id: Any) -> str:
    return slugs([str(id)])[0]
