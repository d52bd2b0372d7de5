"""Conclusions of a document that is read back: each must follow from the numbers beside it, or be as it was written.

Bounds and verdicts are computed again from counts (`auditors.results.recomputed`). A seal, the hash of all fields but `FREE`, shows edits
of numbers that no counts determine, such as `detectable`. The seal is not a signature: a result without counts and without a seal is shown
as recorded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from dpwitness.auditors.results.audit_result import headline_of
from dpwitness.auditors.results.ends import SOUND, grade_of
from dpwitness.auditors.results.recomputed import read_part, recompute_bounds, require_error, require_stated, require_verdict
from dpwitness.auditors.results.verdicts import Verdict, strict
from dpwitness.auditors.results.witness_reading import check_seal, fingerprint
from dpwitness.auditors.statistics.certified_point import certified_point
from dpwitness.mechanisms.terms.reading import Json, shown
from dpwitness.mechanisms.terms.validation import InvalidArgument
from dpwitness.reports.words.facts import claim_of
from dpwitness.reports.words.summary import Family, family, tally_of_verdicts
from dpwitness.reports.words.wording import number, verdict

# Fields of a result that carry no conclusion: where and how long it ran, how it is called, pictures and remarks. Their edits are not seen.
FREE = (
    "name",
    "notes",
    "environment",
    "seconds",
    "cpu_seconds",
    "source",
    "test",
    "target",
    "witness_file",
    "picture",
    "accepted",
    "sha256",
)
_COUNTED = ("claim_numbers", "confidence", "parameter_lower", "epsilon_lower", "p_value", "alpha")  # beside a tally
_EVIDENCE = {"black box": "statistical", "canaries": "statistical", "checks": "statistical"}
_SETTLED = (Verdict.VIOLATED.value, Verdict.NOT_REFUTED.value)
_ROUNDING = 1e-9


def sealed(result: Json) -> Json:
    """The result with the hash of its fields but `FREE`."""
    return {**result, "sha256": _hash(result)}


def _hash(result: Json) -> str:
    return fingerprint({key: _plain(value) for key, value in result.items() if key not in FREE})


def _plain(value: Any) -> Any:
    """Whole floats as integers: other tools write 1.0 as 1."""
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


def holm_of(together: Family | None, size: int) -> Json | None:
    """The audits judged as a family, as a document records it."""
    return {"error": together.error, "adjusted": [together.adjusted.get(i) for i in range(size)]} if together else None


def check_conclusions(document: Json, name: str) -> list[Json]:
    """Return the results of a document, with headlines made of their numbers.

    Raises
    ------
    InvalidArgument
        If a conclusion contradicts the numbers beside it, or a seal the fields: audit, field, what follows, what the document says.
    """
    results = [_checked(result, name, f"results[{i}]") for i, result in enumerate(document["results"])]
    counted = tally_of_verdicts(results)
    if "verdicts" in document and document["verdicts"] != counted:
        raise InvalidArgument(f"verdicts must count those of the results, {counted}, got {document['verdicts']}")
    if document.get("holm") is not None:
        recorded, right = document["holm"], holm_of(family(results), len(results))
        if not same(recorded, right):
            raise InvalidArgument(f"holm must follow from the p-values of the results, which give {right}, got {recorded}")
    return results


def same(first: Any, second: Any) -> bool:
    """Whether two JSON values agree, numbers up to rounding."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return set(first) == set(second) and all(same(first[key], second[key]) for key in first)
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(same, first, second))
    if isinstance(first, int | float) and isinstance(second, int | float):
        return math.isclose(first, second, rel_tol=_ROUNDING)
    return bool(first == second)


def _checked(result: Json, name: str, at: str) -> Json:
    try:
        determined = _follows(result)
        if "sha256" in result and result["sha256"] != _hash(result):
            raise InvalidArgument(
                f"result {result['name']!r} is damaged or edited: sha256 is not that of its fields; "
                "without sha256 it is read, and shown as recorded"
            )
    except InvalidArgument as error:
        raise InvalidArgument(f"{at}: {error}") from None
    found = dict(result)
    if not determined and "sha256" not in result and result["verdict"] in (*_SETTLED, "CERTIFIED", "SUPPORTED"):
        note = f"as recorded in {name}: the file does not hold the counts from which this verdict follows"
        found["notes"] = [*(each for each in result.get("notes") or [] if not each.startswith("as recorded in ")), note]
    return found | told_headline(result)


def _follows(result: Json) -> bool:
    """Whether bound and verdict follow from counts; raise InvalidArgument where they contradict each other, or the text beside them."""
    kind, evidence = result.get("kind"), result.get("evidence")
    determined = _RULES[kind](result) if kind in _RULES else False
    if kind in _EVIDENCE and evidence not in (None, _EVIDENCE[kind]):
        _refuse(result, "evidence", _EVIDENCE[kind], evidence)
    if result["verdict"] in ("CERTIFIED", "SUPPORTED") and kind != "white box":
        _refuse(result, "kind", "white box, the only one that certifies", kind)
    _texts(result)
    if result.get("witness"):
        _witness(result)
    return determined


def _canaries(result: Json) -> bool:
    from dpwitness.auditors.canaries.again import recompute_canaries

    return "tested" in result and "fixed" in result and not recompute_canaries(result).unchecked


def _measured(result: Json) -> bool:
    limits = ("claimed", "lower", "estimate", "runs", "confidence")
    keys = ("ratio_lower", "ratio", "ratio_upper") if result["kind"] == "sensitivity" else limits
    return all(key in result for key in keys) and not recompute_bounds(result).unchecked


def _texts(result: Json) -> None:
    """The verdict's word in the headline, the relation of the pair, what a suite expected."""
    headline, word = str(result.get("headline") or ""), verdict(result["verdict"])
    first = next((each for each in map(verdict, (v.value for v in Verdict)) if headline.startswith((f"{each}:", f"{each} "))), None)
    if first not in (None, word):
        _refuse(result, "verdict", first, word)
    pair = result.get("pair") or {}
    if result.get("relation") is not None and pair.get("relation") not in (None, result["relation"]):
        _refuse(result, "relation", pair["relation"], result["relation"])
    claim = claim_of(result)
    if claim is not None and result.get("parameter", claim.symbol) != claim.symbol:
        _refuse(result, "parameter", claim.symbol, result["parameter"])
    kept = str(result.get("expected") or "").startswith("kept")
    if result.get("right") is True and kept and result["verdict"] == "VIOLATED":
        _refuse(result, "right", False, True)
    if result.get("right") is not None and result["verdict"] in ("ERROR", "INCONCLUSIVE"):
        _refuse(result, "right", None, result["right"])


def _black_box(result: Json) -> bool:
    tested = result.get("tally") is not None
    if tested and all(key in result for key in _COUNTED):
        found = recompute_bounds(result)
        _last_look(result)
        return not found.unchecked
    claim, lower = claim_of(result), number(result.get("parameter_lower"))
    if claim is not None and lower is not None:
        require_verdict(result, Verdict(result["verdict"]), lower > claim.parameter, f"a bound of {lower:.6g} against {claim}")
    return False


def _last_look(result: Json) -> None:
    """The counts of the last look, of which an earlier look may have certified more: their error, and the point that they prove."""
    alpha, counts = float(result["alpha"]), read_part(result["tally"]).tally
    if alpha > 0:
        require_error(result, alpha, 1 - float(result["confidence"]))
    if counts.correct + counts.wrong > counts.rounds:
        _refuse(result, "tally", f"at most {counts.rounds} guesses, its rounds", counts.correct + counts.wrong)
    guessed = counts.correct + counts.wrong and alpha > 0
    right = strict(asdict(certified_point(counts, alpha))) if guessed else None
    if "certified_point" in result and not same(result["certified_point"], right):
        _refuse(result, "certified_point", right, result["certified_point"])


def _white_box(result: Json) -> bool:
    """The verdict of an enclosure: its ends, what they rest on, and the claim."""
    claim, named = claim_of(result), Verdict(result["verdict"])
    low, high = (number(result.get(f"parameter_{end}")) for end in ("lower", "upper"))
    if claim is None or low is None or high is None or named is Verdict.ERROR:
        return False
    grades = {end: grade_of(str(result.get(f"{end}_end", "numerical"))) for end in ("lower", "upper")}
    if low > high * (1 + _ROUNDING):
        _refuse(result, "parameter_lower", f"at most parameter_upper, {high:.6g}", low)
    edge, reach = claim.parameter * (1 + 1e-6) + _ROUNDING, claim.parameter * (1 - 1e-6) - _ROUNDING
    wrong = {
        Verdict.VIOLATED: low < reach or grades["lower"] not in SOUND,
        Verdict.CERTIFIED: high > edge or grades["upper"] not in SOUND,
        Verdict.SUPPORTED: high > edge,
        Verdict.INCONCLUSIVE: (high < reach and grades["upper"] in SOUND) or (low > edge and grades["lower"] in SOUND),
        Verdict.NOT_REFUTED: True,
    }[named]
    if wrong:
        ends = f"[{low:.6g}, {high:.6g}], {grades['lower']} and {grades['upper']}, against {claim}"
        _refuse(result, "verdict", f"a verdict that its ends allow, {ends}", named.value)
    deciding = grades["lower" if named is Verdict.VIOLATED else "upper"]
    if result.get("evidence", deciding) != deciding:
        _refuse(result, "evidence", deciding, result["evidence"])
    return False


def _trace(result: Json) -> bool:
    """The verdict of a trace: its findings, and the audit that tried to confirm them."""
    audit, found = result.get("audit"), result["verdict"]
    determined = _follows(dict(audit)) if audit else False
    for key in ("parameter_lower", "epsilon_lower"):
        if result.get(key) is not None:
            require_stated(result, key, float((audit or {}).get(key, 0.0)))
    confirmed, findings = (audit or {}).get("verdict") == "VIOLATED", bool(result.get("findings"))
    if found == "VIOLATED" and not confirmed:
        _refuse(result, "verdict", "INCONCLUSIVE, as no audit confirms it", found)
    if found == "NOT_REFUTED" and (confirmed or findings):
        _refuse(result, "verdict", "VIOLATED" if confirmed else "INCONCLUSIVE", found)
    return determined and found == "VIOLATED"


def _checks(result: Json) -> bool:
    """The verdict of checks: whether any failed."""
    failed = [finding for finding in result.get("findings") or [] if finding.get("status") == "failed"]
    right = "VIOLATED or ERROR, as a check failed" if failed else "NOT_REFUTED, as no check failed"
    if bool(failed) == (result["verdict"] == "NOT_REFUTED") and "findings" in result:
        _refuse(result, "verdict", right, result["verdict"])
    return False


_RULES: dict[Any, Callable[[Json], bool]] = {
    "black box": _black_box,
    "canaries": _canaries,
    "white box": _white_box,
    "trace": _trace,
    "checks": _checks,
    "utility": _measured,
    "sensitivity": _measured,
}


def _witness(result: Json) -> None:
    """The witness inside a result: its seal, and the numbers that both state."""
    witness = result["witness"]
    check_seal(witness, f"witness of {result['name']!r}")
    if witness.get("kind") is not None or result.get("kind") not in ("black box", "white box"):
        return
    bits = witness.get("level") == "bit"
    bound = number((result.get("bit_level") or {}).get("epsilon_lower") if bits else result.get("parameter_lower"))
    stated = number(witness.get("bound"))
    if bound is not None and stated is not None and not math.isclose(bound, stated, rel_tol=_ROUNDING):
        _refuse(result, "bit_level.epsilon_lower" if bits else "parameter_lower", f"{stated:.6g}, the bound of its witness", bound)
    for key in ("claim", "confidence", "seed"):
        if key in result and key in witness and result[key] != witness[key]:
            _refuse(result, key, f"{witness[key]}, as in its witness", result[key])


def told_headline(result: Json) -> Json:
    """The headline of an audit from its numbers; nothing where they are not all there."""
    numbers = {key: number(result.get(key)) for key in ("parameter_lower", "confidence", "detectable")}
    claim, notes = claim_of(result), result.get("notes") or []
    if result.get("kind") != "black box" or claim is None or None in numbers.values():
        return {}
    lower, confidence, seen = (value for value in numbers.values() if value is not None)
    told = headline_of(claim, Verdict(result["verdict"]), lower, confidence, seen, str(notes[0]) if notes else "")
    return {"headline": told}


def _refuse(result: Json, field: str, right: object, recorded: object) -> None:
    raise InvalidArgument(f"result {result.get('name', '')!r} is damaged or edited: {field} must be {right}, got {shown(recorded)}")
