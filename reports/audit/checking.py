"""Validation of a report that is read back: every conclusion must follow from the recorded numbers,
or be unchanged since it was written.

Bounds and verdicts are computed again from the counts (`auditors.witnesses.kinds`). A seal, the
hash of all fields except `UNSEALED_FIELDS`, reveals edits of numbers that do not follow from
counts, such as `detectable`. The seal is not a signature. A result without counts and without a
seal is shown as recorded.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dpwitness.auditors.witnesses.facts import claim_of
from dpwitness.auditors.witnesses.kinds import kind_of, recompute_bounds
from dpwitness.auditors.witnesses.recompute import is_same, raise_damaged
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.auditors.witnesses.witness_reader import check_seal, fingerprint
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.core.values.wording import number
from dpwitness.reports.phrasing.summary import Family, count_verdicts, family
from dpwitness.reports.phrasing.wording import verdict

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
    try:
        determined = _check_result(result)
        if "sha256" in result and result["sha256"] != _hash(result):
            why = "sha256 does not match its fields; remove sha256 to show the result as recorded"
            raise InvalidArgument(f"result {result['name']!r} is damaged or edited: {why}")
    except InvalidArgument as error:
        raise InvalidArgument(f"{at}: {error}") from None
    found = dict(result)
    if not determined and "sha256" not in result and result["verdict"] in _DECIDED:
        note = (
            f"as recorded in {name}: the file does not hold the counts from which this verdict "
            "follows"
        )
        found["notes"] = [
            *(each for each in result.get("notes") or [] if not each.startswith("as recorded in ")),
            note,
        ]
    return found | recomputed_headline(result)


def _check_result(result: Json) -> bool:
    """Return whether the bound and the verdict of a result follow from its numbers."""
    determined = recompute_bounds(result).determined
    if result["verdict"] in ("CERTIFIED", "SUPPORTED") and not kind_of(result).certifies:
        raise_damaged(result, "kind", "one that certifies, such as white box", result.get("kind"))
    _check_texts(result)
    if result.get("witness"):
        _check_witness(result)
    return determined


def _check_texts(result: Json) -> None:
    """Check the fields with text: the verdict in the headline, the pair's relation, the parameter,
    and the suite's expectation.
    """
    headline, word = str(result.get("headline") or ""), verdict(result["verdict"])
    first = next(
        (
            each
            for each in map(verdict, (v.value for v in Verdict))
            if headline.startswith((f"{each}:", f"{each} "))
        ),
        None,
    )
    if first not in (None, word):
        raise_damaged(result, "verdict", first, word)
    pair = result.get("pair") or {}
    if result.get("relation") is not None and pair.get("relation") not in (
        None,
        result["relation"],
    ):
        raise_damaged(result, "relation", pair["relation"], result["relation"])
    claim = claim_of(result)
    if claim is not None and result.get("parameter", claim.symbol) != claim.symbol:
        raise_damaged(result, "parameter", claim.symbol, result["parameter"])
    is_kept = str(result.get("expected") or "").startswith("kept")
    if result.get("right") is True and is_kept and result["verdict"] == "VIOLATED":
        raise_damaged(result, "right", False, True)
    if result.get("right") is not None and result["verdict"] in (
        "ERROR",
        "INCONCLUSIVE",
        "SUSPECT",
    ):
        raise_damaged(result, "right", None, result["right"])


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
    bits = witness.get("level") == "bit"
    bound = number(
        (result.get("bit_level") or {}).get("epsilon_lower")
        if bits
        else result.get("parameter_lower")
    )
    stated = number(witness.get("bound"))
    if bound is not None and stated is not None and not math.isclose(bound, stated, rel_tol=1e-9):
        raise_damaged(
            result,
            "bit_level.epsilon_lower" if bits else "parameter_lower",
            f"{stated:.6g}, the bound of its witness",
            bound,
        )
    for key in ("claim", "confidence", "seed"):
        if key in result and key in witness and result[key] != witness[key]:
            raise_damaged(result, key, f"{witness[key]}, as in its witness", result[key])


def recomputed_headline(result: Json) -> Json:
    """Return ``{"headline": ...}`` computed from the numbers of a result; an empty dict where the
    kind has no such headline, or a number is missing.
    """
    found = kind_of(result).headline(result)
    return {} if found is None else {"headline": found}
