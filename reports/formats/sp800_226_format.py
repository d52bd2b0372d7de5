"""Evidence sheet that follows the parts of NIST SP 800-226, Guidelines for Evaluating Differential
Privacy Guarantees (March 2025).

Each row states what the audits of the report measured. A row without a measurement says ``not
covered``: the sheet never infers an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from dpwitness.auditors.witnesses.kinds import kind_of
from dpwitness.core.values.atomic_files import write_text
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.wording import figure
from dpwitness.reports.formats.osv_format import release_of
from dpwitness.reports.phrasing.facts import Entry
from dpwitness.reports.phrasing.scope import claim_facts, untested
from dpwitness.reports.phrasing.wording import code, escaped_markdown, line, table
from dpwitness.reports.plots.album import Album

SUFFIX = ".sp800-226.md"
NOT_COVERED = "not covered"
_SHOWN = 12  # audits per row

Row = tuple[str, Callable[[Sequence[Json]], str]]


def sheet(document: Json) -> str:
    """Return the evidence sheet of a report as Markdown.

    Parameters
    ----------
    document : dict
        Document from `document.build_document`.

    Returns
    -------
    str
        The Markdown text: one table for each part of the publication, then what was not tested.
    """
    results = document["results"]
    lines = [
        f"# Evidence sheet: {escaped_markdown(line(document['title'], 200))}",
        "",
        "The sheet follows NIST SP 800-226, *Guidelines for Evaluating Differential Privacy "
        "Guarantees*. Each row states what the audits "
        f"of this report measured; *{NOT_COVERED}* means that no audit of the report looked "
        "at the subject.",
        "",
    ]
    for part, rows in _PARTS:
        answers = [(subject, find(results) or f"*{NOT_COVERED}*") for subject, find in rows]
        lines += [f"## {part}", "", *table(("subject", "measured"), answers), ""]
    lines += ["## Not tested", "", *(f"- {text}" for text in untested(results)), ""]
    return "\n".join(lines)


def write(document: Json, entries: Sequence[Entry], file: Path, album: Album) -> None:
    """Write the evidence sheet of a document."""
    write_text(file, sheet(document))


def _fact(label: str) -> Callable[[Sequence[Json]], str]:
    """Return a function that looks up a fact of the claims."""

    def find(results: Sequence[Json]) -> str:
        found = dict(claim_facts(results)).get(label, "") if results else ""
        return "" if found == "none stated" else found

    return find


def _headlines(topic: str) -> Callable[[Sequence[Json]], str]:
    """Return a function that lists the headlines of audits of one topic."""

    def find(results: Sequence[Json]) -> str:
        found = [result for result in results if kind_of(result).topic == topic]
        return _joined(
            f"{_name(result)}: "
            f"{escaped_markdown(line(result.get('headline') or result['verdict'], 300))}"
            for result in found
        )

    return find


def _joined(texts: Iterable[str]) -> str:
    found = list(texts)
    more = [f"and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
    return "<br>".join([*found[:_SHOWN], *more])


def _name(result: Json) -> str:
    return code(line(result["name"], 80))


def _bounds(results: Sequence[Json]) -> str:
    """Certified lower bound of each audited parameter."""
    found = [
        result
        for result in results
        if result.get("parameter_lower") is not None and result.get("parameter")
    ]
    return _joined(
        f"{_name(result)}: {escaped_markdown(str(result['parameter']))} > "
        f"{figure(result['parameter_lower'])} "
        f"against {code(line(result.get('claim') or '', 80))}"
        for result in found
    )


def _algorithms(results: Sequence[Json]) -> str:
    """Audited functions, with library and release."""
    texts = []
    for result in results:
        library, version = release_of(result)
        source = result.get("source")
        place = (
            f"{library} {version}"
            if library
            else f"{source['file']}:{source['line']}"
            if source
            else ""
        )
        texts.append(_name(result) + (f" ({escaped_markdown(line(place, 120))})" if place else ""))
    return _joined(dict.fromkeys(texts))


def _floating_point(results: Sequence[Json]) -> str:
    """Verdicts on the low bits of outputs."""
    found = [result for result in results if result.get("bit_level")]
    return _joined(
        f"{_name(result)}: {escaped_markdown(str(result['bit_level'].get('verdict')))}, epsilon > "
        f"{figure(result['bit_level'].get('epsilon_lower'))} from low bits alone"
        for result in found
    )


def _randomness(results: Sequence[Json]) -> str:
    """Number of audits with a seed, which is not a statement on the generator of the library."""
    seeded = sum(result.get("seed") is not None for result in results)
    return (
        f"{seeded} of {len(results)} audits record a seed; the quality of the generator: "
        f"{NOT_COVERED}"
        if results
        else ""
    )


def _nothing(results: Sequence[Json]) -> str:
    """Answer for subjects that no audit of this tool measures."""
    return ""


_PARTS: tuple[tuple[str, tuple[Row, ...]], ...] = (
    (
        "The differential privacy guarantee",
        (
            ("epsilon and delta, as claimed", _fact("parameters claimed")),
            ("epsilon, certified from below", _bounds),
            ("variant of differential privacy", _fact("notion")),
            ("unit of privacy", _fact("unit of privacy")),
            ("neighboring relation (bounded or unbounded)", _fact("neighboring relation")),
            ("evidence", _fact("evidence")),
        ),
    ),
    (
        "Differentially private algorithms",
        (
            ("algorithm and implementation", _algorithms),
            ("outputs against the claim", _headlines("outputs")),
            ("sensitivity and contribution bounds", _headlines("sensitivity")),
            ("accounting and composition", _headlines("accounting")),
            ("utility", _headlines("utility")),
            ("systemic, human and statistical bias", _nothing),
        ),
    ),
    (
        "Deploying differential privacy",
        (
            ("trust model", _fact("trust model")),
            ("floating point", _floating_point),
            ("randomness", _randomness),
            ("time and other side channels", _nothing),
            ("data security and access control", _nothing),
            ("data collection", _nothing),
        ),
    ),
)
