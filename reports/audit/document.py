"""JSON document of a report: the data that all formats show. A written document can be read back
and rendered again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dpwitness.auditors.witnesses.kinds import kind_of
from dpwitness.auditors.witnesses.parquet_files import has_frame_files, read_frame_files
from dpwitness.auditors.witnesses.result import Result
from dpwitness.auditors.witnesses.verdicts import Verdict, environment, strict
from dpwitness.auditors.workers.loading import place_of
from dpwitness.core.values.json_reader import (
    TEXT,
    Json,
    Rule,
    anything,
    boolean,
    checked,
    integer,
    items,
    listing,
    nullable,
    number,
    one_of,
    present,
    printable,
    read_json,
    record,
    text,
)
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.reports.audit.checking import (
    check_conclusions,
    holm_json,
    recomputed_headline,
    sealed,
)
from dpwitness.reports.phrasing.facts import Entry
from dpwitness.reports.phrasing.summary import count_verdicts, family
from dpwitness.reports.phrasing.wording import slugs

SCHEMA = 1
WITNESS = re.compile(r"witness-[A-Za-z0-9._-]+\.json")
# in the report folder or one of its subfolders
_WITNESS_PATH = re.compile(rf"([a-z-]+/)?{WITNESS.pattern}")


def result_json(result: Result | Mapping[str, Any], here: Path | None = None) -> Json:
    """Return a result as JSON for a report: `to_json`, ``"witness"`` for replay, and ``"source"``.

    Worker processes send this JSON to the process that writes the report.

    Parameters
    ----------
    result : Result or mapping
        Result, or its JSON, which is copied unchanged.
    here : Path, optional
        Folder to which the source file is relative; by default the current folder.

    Returns
    -------
    dict
        ``"source"`` is the file and line of the audited mechanism or function, or None if unknown.
    """
    if isinstance(result, Mapping):
        return dict(result)
    json_result = result.to_json()
    return json_result | {
        "witness": result.witness,
        "source": place_of(result.source_of, json_result.get("target"), here),
    }


def build_document(
    results: Sequence[Result | Mapping[str, Any]], *, title: str, command: str | None = None
) -> Json:
    """Return the JSON document of a report over `results`, the content of ``audit.json``."""
    data = [_truncate_texts(strict(dict(result_json(result)))) for result in results]
    data = [result | recomputed_headline(result) for result in data]
    for result, slug in zip(
        data, slugs(str(result.get("name", "")) for result in data), strict=True
    ):
        result["witness_file"] = f"witness-{slug}.json" if result.get("witness") else None
    together = family(data)
    return {
        "schema_version": SCHEMA,
        "title": _truncate(title),
        "command": _truncate(command),
        "environment": strict(environment()),
        "verdicts": count_verdicts(data),
        "holm": holm_json(together, len(data)),
        "results": [sealed(result) for result in data],
    }


def _truncate_texts(result: Json) -> Json:
    """Return the result with texts truncated to the length that `read_document` accepts; a witness
    is not changed.
    """
    return {key: value if key == "witness" else _truncate(value) for key, value in result.items()}


def _truncate(value: Any) -> Any:
    if isinstance(value, str) and len(value) > TEXT:
        return f"{value[: TEXT - 100]} ... ({len(value):,} characters)"
    if isinstance(value, dict):
        return {_truncate(key): _truncate(part) for key, part in value.items()}
    return [_truncate(part) for part in value] if isinstance(value, list) else value


def entries_of(document: Json) -> list[Entry]:
    """Return the audits of a document as entries for the formats."""
    data = document["results"]
    together = family(data)
    parts = slugs(str(result.get("name", "")) for result in data)
    adjusted = together.adjusted if together else {}
    return [
        Entry(result, slug, result.get("witness_file"), (), adjusted.get(i))
        for i, (result, slug) in enumerate(zip(data, parts, strict=True))
    ]


# rejects URLs, because pages link to the value
_witness_file = checked(
    lambda value: isinstance(value, str) and _WITNESS_PATH.fullmatch(value) is not None,
    "be named witness-NAME.json",
)


# formats print the value without escapes
_symbol = checked(
    lambda value: isinstance(value, str) and re.fullmatch("[A-Za-z]{1,40}", value) is not None,
    "consist of letters A to Z",
)


_extended = nullable(number(words_allowed=("inf", "-inf", "nan")))
_texts = listing(text(TEXT))
_PAIR = nullable(record({"relation": text(TEXT), "why": text(TEXT)}, d0=anything, d1=anything))
_TALLY = nullable(
    record(correct=integer(), wrong=integer(), rounds=integer(), directions=integer(1, 2))
)
_VERDICT = one_of(*(verdict.value for verdict in Verdict))
_CAUSE = record(
    **{
        "kind": text(40),
        "words": text(TEXT),
        "verdict": _VERDICT,
        "parameter_lower": _extended,
        "tally": _TALLY,
        "lost": integer(),
    },
    **dict.fromkeys(("event", "alpha", "within"), anything),
)
# fields of a result that the formats use in their structure; other fields are printed as text or
# ignored
_FIELDS = {
    "kind": text(200),
    "headline": text(TEXT),
    "claim": nullable(text(TEXT)),
    "relation": nullable(text(TEXT)),
    "parameter": _symbol,
    "notes": _texts,
    "pair": _PAIR,
    "environment": items(text(TEXT)),
    "witness": nullable(items(anything)),
    "witness_file": nullable(_witness_file),
    "description": nullable(text(TEXT)),
    "seed": nullable(integer()),
    "right": nullable(boolean),
    "expected": nullable(text(TEXT)),
    "test": text(TEXT),
    "guessed": text(TEXT),
    "tally": _TALLY,
    "causes": listing(_CAUSE),
    "alpha": number(lambda a: 0 <= a < 1, "in [0, 1)"),
    "source": nullable(record(file=text(1000), line=integer(1))),
    "findings": listing(items(anything)),
    "target": nullable(items(anything)),
    "accepted": nullable(record(reason=text(), expires=text(40), rules=listing(text(40)))),
} | dict.fromkeys(
    (
        *(
            "parameter_lower",
            "parameter_upper",
            "epsilon_lower",
            "confidence",
            "p_value",
            "limit",
            "detectable",
            "bound",
        ),
        *("seconds", "cpu_seconds"),
        *("ratio", "ratio_lower", "ratio_upper", "estimate", "lower", "upper"),
    ),
    _extended,
)
_DOCUMENT_FIELDS = {
    "title": text(TEXT),
    "command": nullable(text(TEXT)),
    "environment": items(text(TEXT)),
}


# results inside a result
_NESTED: dict[str, Rule] = {
    "bit_level": nullable(
        present({"verdict": _VERDICT, "tally": _TALLY, "epsilon_lower": _extended, "pair": _PAIR})
    ),
    "enclosure": nullable(present({"parameter_lower": _extended, "parameter_upper": _extended})),
    "audit": nullable(present(_FIELDS | {"verdict": _VERDICT})),
}


def read_document(path: str | Path) -> Json:
    """Read and validate the document of a written report.

    Parameters
    ----------
    path : str or Path
        Path of ``audit.json``.

    Returns
    -------
    dict
        The document, with recomputed headlines.

    Raises
    ------
    InvalidArgument
        If the path is not a regular file, or the file is not complete JSON, is from another tool,
        or has a newer schema. The message is one line that names the file and the field.
    """
    name, found = printable(Path(path).name), read_json(path)
    if has_frame_files(found):
        try:
            found = read_frame_files(found, Path(path).parent)
        except InvalidArgument as error:
            raise InvalidArgument(f"{name}: {error}") from None
    return checked_document(found, name)


def checked_document(found: Any, name: str = "document") -> Json:
    """Validate a document from an untrusted source and return it.

    Raises InvalidArgument as `read_document` does; the message starts with `name`.
    """
    if not isinstance(found, Mapping) or "results" not in found or "schema_version" not in found:
        raise InvalidArgument(
            f"{name} must be a report of dpwitness, such as audit.json: schema_version or "
            "results is missing"
        )
    try:
        if integer(1)(found["schema_version"], "schema_version") > SCHEMA:
            raise InvalidArgument(
                f"schema_version must be at most {SCHEMA}, got {found['schema_version']}: "
                "the file was written by a newer dpwitness; upgrade dpwitness"
            )
        present(_DOCUMENT_FIELDS)(dict(found), "")
        for i, result in enumerate(listing(items(anything))(found["results"], "results")):
            at = f"results[{i}]"
            others = {key: anything for key in result if key not in ("name", "verdict")}
            record(others, name=text(TEXT), verdict=_VERDICT)(result, at)
            present(_FIELDS | _NESTED | dict(kind_of(result).fields))(result, at)
        results = check_conclusions(dict(found), name)
    except InvalidArgument as error:
        raise InvalidArgument(f"{name}: {error}") from None
    usual: Json = {"title": "Audits", "command": None, "environment": {}}
    return (
        dict(found)
        | {"results": results}
        | {key: value for key, value in usual.items() if key not in found}
    )
