"""Validation of a report that is read back: every conclusion must follow from the recorded numbers,
or be unchanged since it was written.

Bounds and verdicts are computed again from the counts (`auditors.results.recompute`). A seal, the
hash of all fields except `UNSEALED_FIELDS`, reveals edits of numbers that do not follow from
counts, such as `detectable`. The seal is not a signature. A result without counts and without a
seal is shown as recorded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from dpwitness.auditors.statistics.certificate import certified_point
from dpwitness.auditors.witnesses.audit_result import headline_of
from dpwitness.auditors.witnesses.certify_result import SOUND, grade_of
from dpwitness.auditors.witnesses.recompute import (
    read_part,
    recompute_bounds,
    require_allowed_error,
    require_stated_value,
    require_verdict,
)
from dpwitness.auditors.witnesses.verdicts import Verdict, strict
from dpwitness.auditors.witnesses.witness_reader import check_seal, fingerprint
from dpwitness.core.values.json_reader import Json, short_json
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.reports.phrasing.facts import claim_of
from dpwitness.reports.phrasing.summary import Family, count_verdicts, family
from dpwitness.reports.phrasing.wording import number, verdict

# Fields without conclusions: name, notes, run environment, times, sources, pictures. The seal does
# not cover these fields.
UNSEALED_FIELDS = (
    *("name", "notes", "environment", "seconds", "cpu_seconds", "source", "test"),
    *("target", "witness_file", "picture", "accepted", "sha256"),
)
# Fields that are needed with a tally to recompute bounds.
_TALLY_FIELDS = (
    "claim_numbers",
    "confidence",
    "parameter_lower",
    "epsilon_lower",
    "p_value",
    "alpha",
)
_EVIDENCE = {"black box": "statistical", "canaries": "statistical", "checks": "statistical"}
_DECIDED = (Verdict.VIOLATED.value, Verdict.NOT_REFUTED.value)
_ROUNDING = 1e-9


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
        if not same(recorded, right):
            raise InvalidArgument(
                f"holm must follow from the p-values of the results, which give {right}, got "
                f"{recorded}"
            )
    return results


def same(first: Any, second: Any) -> bool:
    """Return whether two JSON values are equal, with numbers compared up to rounding."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return set(first) == set(second) and all(same(first[key], second[key]) for key in first)
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(same, first, second))
    if isinstance(first, int | float) and isinstance(second, int | float):
        return math.isclose(first, second, rel_tol=_ROUNDING)
    return bool(first == second)


def _checked_result(result: Json, name: str, at: str) -> Json:
    try:
        determined = _check_result(result)
        if "sha256" in result and result["sha256"] != _hash(result):
            why = "sha256 does not match its fields; remove sha256 to show the result as recorded"
            raise InvalidArgument(f"result {result['name']!r} is damaged or edited: {why}")
    except InvalidArgument as error:
        raise InvalidArgument(f"{at}: {error}") from None
    found = dict(result)
    if (
        not determined
        and "sha256" not in result
        and result["verdict"] in (*_DECIDED, "CERTIFIED", "SUPPORTED")
    ):
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
    """Return whether the bound and the verdict of a result follow from its counts."""
    kind, evidence = result.get("kind"), result.get("evidence")
    determined = _RULES[kind](result) if kind in _RULES else False
    trace = (result.get("trace") or {}) if kind == "black box" else {}
    traced = bool(trace.get("exceeds"))
    doubted = result["verdict"] == "INCONCLUSIVE" and any(
        finding.get("kind") == "ACCOUNT" for finding in trace.get("findings") or []
    )
    if traced and result["verdict"] == "NOT_REFUTED":
        _raise_damaged(
            result, "verdict", "INCONCLUSIVE, as its trace exceeds the claim", result["verdict"]
        )
    if trace.get("verdict") == "SUPPORTED" and (
        traced or trace.get("doubt") or not trace.get("calls") or trace.get("findings")
    ):
        _raise_damaged(
            result,
            "trace",
            "VIOLATED or INCONCLUSIVE, as its calls do not account for the outputs within "
            "the claim",
            "SUPPORTED",
        )
    assumed = traced and result["verdict"] == "INCONCLUSIVE"
    if kind in _EVIDENCE and evidence not in (
        None,
        "assumed" if assumed or (doubted and evidence == "assumed") else _EVIDENCE[kind],
    ):
        _raise_damaged(result, "evidence", _EVIDENCE[kind], evidence)
    if result["verdict"] in ("CERTIFIED", "SUPPORTED") and kind != "white box":
        _raise_damaged(result, "kind", "white box, the only one that certifies", kind)
    _check_texts(result)
    if result.get("witness"):
        _check_witness(result)
    return determined


def _check_canaries(result: Json) -> bool:
    from dpwitness.auditors.canaries.audit import recompute_canaries

    return "tested" in result and "fixed" in result and not recompute_canaries(result).unchecked


def _check_measurement(result: Json) -> bool:
    limits = ("claimed", "lower", "estimate", "runs", "confidence")
    keys = ("ratio_lower", "ratio", "ratio_upper") if result["kind"] == "sensitivity" else limits
    return all(key in result for key in keys) and not recompute_bounds(result).unchecked


def _check_stability(result: Json) -> bool:
    from dpwitness.auditors.functions.stability.result import recheck

    return recheck(result)


def _check_accountant(result: Json) -> bool:
    from dpwitness.auditors.functions.accounting.audit import recheck

    return recheck(result)


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
        _raise_damaged(result, "verdict", first, word)
    pair = result.get("pair") or {}
    if result.get("relation") is not None and pair.get("relation") not in (
        None,
        result["relation"],
    ):
        _raise_damaged(result, "relation", pair["relation"], result["relation"])
    claim = claim_of(result)
    if claim is not None and result.get("parameter", claim.symbol) != claim.symbol:
        _raise_damaged(result, "parameter", claim.symbol, result["parameter"])
    is_kept = str(result.get("expected") or "").startswith("kept")
    if result.get("right") is True and is_kept and result["verdict"] == "VIOLATED":
        _raise_damaged(result, "right", False, True)
    if result.get("right") is not None and result["verdict"] in (
        "ERROR",
        "INCONCLUSIVE",
        "SUSPECT",
    ):
        _raise_damaged(result, "right", None, result["right"])


def _check_black_box(result: Json) -> bool:
    tested = result.get("tally") is not None
    if tested and all(key in result for key in _TALLY_FIELDS):
        found = recompute_bounds(result)
        _check_tally(result)
        return not found.unchecked
    claim, lower = claim_of(result), number(result.get("parameter_lower"))
    if claim is not None and lower is not None:
        require_verdict(
            result,
            Verdict(result["verdict"]),
            lower > claim.parameter,
            f"a bound of {lower:.6g} against {claim}",
        )
    return False


def _check_tally(result: Json) -> None:
    """Check the counts of the last interim look: their error probability, and the certified point.

    The bound itself is not compared, because an earlier look may have certified more.
    """
    alpha, counts = float(result["alpha"]), read_part(result["tally"]).tally
    if alpha > 0:
        require_allowed_error(result, alpha, 1 - float(result["confidence"]))
    if counts.correct + counts.wrong > counts.rounds:
        _raise_damaged(
            result,
            "tally",
            f"at most {counts.rounds} guesses, its rounds",
            counts.correct + counts.wrong,
        )
    has_guesses = counts.correct + counts.wrong and alpha > 0
    right = strict(asdict(certified_point(counts, alpha))) if has_guesses else None
    if "certified_point" in result and not same(result["certified_point"], right):
        _raise_damaged(result, "certified_point", right, result["certified_point"])


def _check_white_box(result: Json) -> bool:
    """Check the verdict of a white-box result against the endpoints of its enclosure, their
    evidence, and the claim.
    """
    claim, stated_verdict = claim_of(result), Verdict(result["verdict"])
    low, high = (number(result.get(f"parameter_{end}")) for end in ("lower", "upper"))
    if claim is None or low is None or high is None or stated_verdict is Verdict.ERROR:
        return False
    grades = {
        end: grade_of(str(result.get(f"{end}_end", "numerical"))) for end in ("lower", "upper")
    }
    if low > high * (1 + _ROUNDING):
        _raise_damaged(result, "parameter_lower", f"at most parameter_upper, {high:.6g}", low)
    largest_allowed, reached = (
        claim.parameter * (1 + 1e-6) + _ROUNDING,
        claim.parameter * (1 - 1e-6) - _ROUNDING,
    )
    wrong = {
        Verdict.VIOLATED: low < reached or grades["lower"] not in SOUND,
        Verdict.CERTIFIED: high > largest_allowed or grades["upper"] not in SOUND,
        Verdict.SUPPORTED: high > largest_allowed,
        Verdict.INCONCLUSIVE: (high < reached and grades["upper"] in SOUND)
        or (low > largest_allowed and grades["lower"] in SOUND),
        Verdict.NOT_REFUTED: True,
    }[stated_verdict]
    if wrong:
        ends = f"[{low:.6g}, {high:.6g}], {grades['lower']} and {grades['upper']}, against {claim}"
        _raise_damaged(
            result,
            "verdict",
            f"a verdict that agrees with its enclosure, {ends}",
            stated_verdict.value,
        )
    deciding = grades["lower" if stated_verdict is Verdict.VIOLATED else "upper"]
    if result.get("evidence", deciding) != deciding:
        _raise_damaged(result, "evidence", deciding, result["evidence"])
    return False


def _check_trace(result: Json) -> bool:
    """Check the verdict of a trace against its findings and the audit that tried to
    confirm them.
    """
    audit, found = result.get("audit"), result["verdict"]
    determined = _check_result(dict(audit)) if audit else False
    for key in ("parameter_lower", "epsilon_lower"):
        if result.get(key) is not None:
            require_stated_value(result, key, float((audit or {}).get(key, 0.0)))
    confirmed, findings = (
        (audit or {}).get("verdict") in ("VIOLATED", "SUSPECT"),
        bool(result.get("findings")),
    )
    if found == "VIOLATED" and not confirmed:
        _raise_damaged(result, "verdict", "INCONCLUSIVE, as no audit confirms it", found)
    if found == "NOT_REFUTED" and (confirmed or findings or result.get("doubt")):
        _raise_damaged(result, "verdict", "VIOLATED" if confirmed else "INCONCLUSIVE", found)
    return determined and found == "VIOLATED"


def _check_findings(result: Json) -> bool:
    """Check that the verdict is NOT_REFUTED if and only if no check failed."""
    failed = [
        finding for finding in result.get("findings") or [] if finding.get("status") == "failed"
    ]
    right = "VIOLATED or ERROR, as a check failed" if failed else "NOT_REFUTED, as no check failed"
    if bool(failed) == (result["verdict"] == "NOT_REFUTED") and "findings" in result:
        _raise_damaged(result, "verdict", right, result["verdict"])
    return False


_RULES: dict[Any, Callable[[Json], bool]] = {
    "black box": _check_black_box,
    "canaries": _check_canaries,
    "white box": _check_white_box,
    "trace": _check_trace,
    "checks": _check_findings,
    "utility": _check_measurement,
    "sensitivity": _check_measurement,
    "stability": _check_stability,
    "accountant": _check_accountant,
}


def _check_witness(result: Json) -> None:
    """Check the witness inside a result: its seal, and its agreement with the result's bound,
    claim, confidence and seed.
    """
    witness = result["witness"]
    check_seal(witness, f"witness of {result['name']!r}")
    if witness.get("kind") is not None or result.get("kind") not in ("black box", "white box"):
        return
    bits = witness.get("level") == "bit"
    bound = number(
        (result.get("bit_level") or {}).get("epsilon_lower")
        if bits
        else result.get("parameter_lower")
    )
    stated = number(witness.get("bound"))
    if (
        bound is not None
        and stated is not None
        and not math.isclose(bound, stated, rel_tol=_ROUNDING)
    ):
        _raise_damaged(
            result,
            "bit_level.epsilon_lower" if bits else "parameter_lower",
            f"{stated:.6g}, the bound of its witness",
            bound,
        )
    for key in ("claim", "confidence", "seed"):
        if key in result and key in witness and result[key] != witness[key]:
            _raise_damaged(result, key, f"{witness[key]}, as in its witness", result[key])


def recomputed_headline(result: Json) -> Json:
    """Return ``{"headline": ...}`` computed from a black-box result's numbers; an empty dict for
    other kinds or missing numbers.
    """
    numbers = {
        key: number(result.get(key)) for key in ("parameter_lower", "confidence", "detectable")
    }
    claim, notes = claim_of(result), result.get("notes") or []
    if result.get("kind") != "black box" or claim is None or None in numbers.values():
        return {}
    lower, confidence, detectable = (value for value in numbers.values() if value is not None)
    headline_text = headline_of(
        claim,
        Verdict(result["verdict"]),
        lower,
        confidence,
        detectable,
        str(notes[0]) if notes else "",
    )
    return {"headline": headline_text}


def _raise_damaged(result: Json, field: str, right: object, recorded: object) -> None:
    raise InvalidArgument(
        f"result {result.get('name', '')!r} is damaged or edited: {field} must be {right}, "
        f"got {short_json(recorded)}"
    )
