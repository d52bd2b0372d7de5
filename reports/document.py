"""JSON document of a report: the data that all formats show. A written document can be read back
and rendered again.

Every conclusion of a document that is read must follow from the recorded numbers, or be unchanged
since it was written. Bounds and verdicts are computed again from the counts
(`auditors.witnesses.kinds`). A seal, the hash of all fields except `UNSEALED_FIELDS`, reveals edits
of numbers that do not follow from counts, such as `detectable`. The seal is not a signature. A
result without counts and without a seal is shown as recorded.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dpwitness.auditors.witnesses.kinds import (
    claim_of,
    is_same,
    kind_of,
    raise_damaged,
    recompute_bounds,
    require_field,
)
from dpwitness.auditors.witnesses.parquet_files import has_frame_files, read_frame_files
from dpwitness.auditors.witnesses.result import Result
from dpwitness.auditors.witnesses.seals import check_seal, fingerprint
from dpwitness.auditors.witnesses.verdicts import Verdict, environment, strict
from dpwitness.auditors.workers.descriptions import place_of
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
from dpwitness.core.values.wording import number as as_number
from dpwitness.reports.summary import Entry, Family, count_verdicts, family
from dpwitness.reports.wording import slugs, verdict

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
    data = []
    for each in results:
        # texts have the length that `read_document` accepts
        whole = strict(dict(result_json(each)))
        result = {k: value if k == "witness" else _truncate(value) for k, value in whole.items()}
        data.append(result | recomputed_headline(result))
    names = slugs(str(result.get("name", "")) for result in data)
    for result, slug in zip(data, names, strict=True):
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
    with errors_in(name):
        found = read_frame_files(found, Path(path).parent) if has_frame_files(found) else found
    return checked_document(found, name)


@contextmanager
def errors_in(place: str) -> Iterator[None]:
    """Name the place in the messages of InvalidArgument that are raised in the block."""
    try:
        yield
    except InvalidArgument as error:
        raise InvalidArgument(f"{place}: {error}") from None


def checked_document(found: Any, name: str = "document") -> Json:
    """Validate a document from an untrusted source and return it.

    Raises InvalidArgument as `read_document` does; the message starts with `name`.
    """
    if not isinstance(found, Mapping) or "results" not in found or "schema_version" not in found:
        raise InvalidArgument(
            f"{name} must be a report of dpwitness, such as audit.json: schema_version or "
            "results is missing"
        )
    with errors_in(name):
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
    usual: Json = {"title": "Audits", "command": None, "environment": {}}
    return {**usual, **found, "results": results}


# Fields without conclusions: name, notes, run environment, times, sources, pictures. The seal does
# not cover these fields.
UNSEALED_FIELDS = (
    *("name", "notes", "environment", "seconds", "cpu_seconds", "source", "test"),
    *("target", "witness_file", "picture", "accepted", "sha256"),
)
_DECIDED = ("VIOLATED", "NOT_REFUTED", "CERTIFIED", "SUPPORTED")


def sealed(result: Json) -> Json:
    """Return the result with its seal: ``sha256``, the hash of all fields except
    `UNSEALED_FIELDS`.
    """
    return {**result, "sha256": _hash(result)}


def _hash(result: Json) -> str:
    return fingerprint(
        {
            key: _integral_floats_as_int(value)
            for key, value in result.items()
            if key not in UNSEALED_FIELDS
        }
    )


def _integral_floats_as_int(value: Any) -> Any:
    """Replace integral floats by integers in a JSON value, because other tools write 1.0 as 1."""
    if isinstance(value, Mapping):
        return {key: _integral_floats_as_int(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_integral_floats_as_int(part) for part in value]
    return (
        int(value)
        if isinstance(value, float) and value.is_integer() and abs(value) < 2**53
        else value
    )


def holm_json(together: Family | None, size: int) -> Json | None:
    """Return the Holm correction of a family of audits in the JSON form of a document; None without
    a family.
    """
    return (
        {"error": together.error, "adjusted": [together.adjusted.get(i) for i in range(size)]}
        if together
        else None
    )


def check_conclusions(document: Json, name: str) -> list[Json]:
    """Return the results of a document, with headlines computed from their numbers.

    Raises
    ------
    InvalidArgument
        If a conclusion contradicts its numbers, or a seal (checksum) contradicts the sealed fields.
        The message names the audit, the field, the correct value and the recorded value.
    """
    results = [
        _checked_result(result, name, f"results[{i}]")
        for i, result in enumerate(document["results"])
    ]
    verdict_counts = count_verdicts(results)
    if "verdicts" in document and document["verdicts"] != verdict_counts:
        raise InvalidArgument(
            f"verdicts must be the number of results by verdict, {verdict_counts}, got "
            f"{document['verdicts']}"
        )
    if document.get("holm") is not None:
        recorded, right = document["holm"], holm_json(family(results), len(results))
        if not is_same(recorded, right):
            raise InvalidArgument(
                f"holm must follow from the p-values of the results, which give {right}, got "
                f"{recorded}"
            )
    return results


def _checked_result(result: Json, name: str, at: str) -> Json:
    with errors_in(at):
        determined = recompute_bounds(result).determined
        _check_fields(result)
        if result.get("witness"):
            _check_witness(result)
        if "sha256" in result and result["sha256"] != _hash(result):
            why = "sha256 does not match its fields; remove sha256 to show the result as recorded"
            raise InvalidArgument(f"result {result['name']!r} is damaged or edited: {why}")
    found = dict(result)
    if not determined and "sha256" not in result and result["verdict"] in _DECIDED:
        note = (
            f"as recorded in {name}: the file does not hold the counts from which this verdict "
            "follows"
        )
        notes = result.get("notes") or []
        kept = [each for each in notes if not each.startswith("as recorded in ")]
        found["notes"] = [*kept, note]
    return found | recomputed_headline(result)


def _check_fields(result: Json) -> None:
    """Check that the fields of a result agree: kind, the verdict in the headline, the pair's
    relation, the parameter, and the suite's expectation.
    """
    found, headline, claim = result["verdict"], str(result.get("headline") or ""), claim_of(result)
    words = [verdict(each.value) for each in Verdict]
    stated = [word for word in words if headline.startswith((f"{word}:", f"{word} "))]
    relation, audited = result.get("relation"), (result.get("pair") or {}).get("relation")
    symbol = result.get("parameter") if claim is None else claim.symbol
    require_field(result, "verdict", stated[0] if stated else verdict(found), verdict(found))
    require_field(result, "relation", audited or relation, relation or audited)
    require_field(result, "parameter", symbol, result.get("parameter", symbol))
    if found in ("CERTIFIED", "SUPPORTED") and not kind_of(result).certifies:
        raise_damaged(result, "kind", "one that certifies, such as white box", result.get("kind"))
    right, kept = result.get("right"), str(result.get("expected") or "").startswith("kept")
    if right is not None and found in ("ERROR", "INCONCLUSIVE", "SUSPECT"):
        raise_damaged(result, "right", None, right)
    if right and kept and found == "VIOLATED":
        raise_damaged(result, "right", False, True)


def _check_witness(result: Json) -> None:
    """Check the witness inside a result: its seal, and its agreement with the result's bound,
    claim, confidence and seed.
    """
    witness = result["witness"]
    check_seal(witness, f"witness of {result['name']!r}")
    kind = kind_of(result)
    # only a witness that is read with its bound has the bound of the result
    if witness.get("kind") != kind.name or kind.read is None:
        return
    field, found = "parameter_lower", result.get("parameter_lower")
    if witness.get("level") == "bit":
        field = "bit_level.epsilon_lower"
        found = (result.get("bit_level") or {}).get("epsilon_lower")
    bound, stated = as_number(found), as_number(witness.get("bound"))
    if bound is not None and stated is not None and not math.isclose(bound, stated, rel_tol=1e-9):
        raise_damaged(result, field, f"{stated:.6g}, the bound of its witness", bound)
    for key in ("claim", "confidence", "seed"):
        if key in result and key in witness and result[key] != witness[key]:
            raise_damaged(result, key, f"{witness[key]}, as in its witness", result[key])


def recomputed_headline(result: Json) -> Json:
    """Return ``{"headline": ...}`` computed from the numbers of a result; an empty dict where the
    kind has no such headline, or a number is missing.
    """
    found = kind_of(result).headline(result)
    return {} if found is None else {"headline": found}
