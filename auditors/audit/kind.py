"""The kind of black-box audits: facts of their cards, checks of written results, and replay of
their witnesses.
"""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from typing import Any

from dpwitness.auditors.audit.audit import confirm
from dpwitness.auditors.audit.result import headline_of
from dpwitness.auditors.events.event import describe_event_in_words
from dpwitness.auditors.events.outputs import Score, suggested_score
from dpwitness.auditors.events.rule_reader import read_event
from dpwitness.auditors.statistics.certificate import PARTS, certified, certified_point
from dpwitness.auditors.traces.evidence import explanations
from dpwitness.auditors.witnesses.counts import Basis, Cause, describe_causes, read_part
from dpwitness.auditors.witnesses.kinds import (
    BOUND_TOLERANCE,
    Fact,
    Facts,
    Kind,
    Recomputed,
    claim_facts,
    claim_of,
    enclosure,
    is_same,
    pair_facts,
    raise_contradiction,
    raise_damaged,
    require_allowed_error,
    require_field,
    require_stated_value,
    require_verdict,
    run_facts,
)
from dpwitness.auditors.witnesses.replay import Replay, RunOptions
from dpwitness.auditors.witnesses.verdicts import Verdict, strict
from dpwitness.auditors.witnesses.witness_reader import (
    COUNTS,
    EXTENDED,
    ON_PAIR,
    SCORES,
    read_checked_witness,
)
from dpwitness.auditors.workers.trust import PlannedTarget
from dpwitness.core.claims import Claim, exact_claim
from dpwitness.core.protocols import name_of
from dpwitness.core.values.json_reader import (
    TEXT,
    Json,
    anything,
    boolean,
    integer,
    nullable,
    one_of,
    present,
    text,
)
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.core.values.wording import beyond, count, dataset, figure, p_value
from dpwitness.core.values.wording import number as as_number


def _facts(result: Json) -> Facts:
    symbol = str(result.get("parameter", "epsilon"))
    return [
        *claim_facts(result),
        *([] if result.get("verdict") == Verdict.ERROR.value else _bound_facts(result, symbol)),
        Fact("budget", _describe_budget(result)),
        Fact("exact privacy loss", _describe_enclosure(result, symbol)),
        *pair_facts(result),
        Fact("event", describe_event_in_words(result.get("description") or "")),
        Fact("counts", _describe_tallies(result)),
        Fact("causes", describe_causes(result)),
        Fact("float rounding", _describe_bit_level(result)),
        Fact("pairs tried", _describe_pairs(result, symbol)),
        Fact("trace", "; ".join(explanations(result)[:6])),
        *run_facts(result),
    ]


def _bound_facts(result: Json, symbol: str) -> Facts:
    """Return what the audit certifies, how much of the limit this is, what it would have found, and
    with which confidence.
    """
    claim = claim_of(result)
    lower, limit, detectable, confidence, p = (
        as_number(result.get(key))
        for key in ("parameter_lower", "limit", "detectable", "confidence", "p_value")
    )

    def times(parameter: float | None) -> str:
        """Return how many times the claim's parameter this is; empty if unknown or infinite."""
        if claim is None or parameter is None or math.isinf(parameter):
            return ""
        return f"{figure(parameter / claim.parameter)} times the claim"

    certified = [beyond(symbol, result.get("parameter_lower"))]
    if symbol != "epsilon":
        certified.append(f"{beyond('epsilon', result.get('epsilon_lower'))} at delta = 0")
    share = "the limit is unknown: it needs the exact law of the privacy loss"
    if limit and lower is not None:
        share = (
            f"{figure(lower)} / {figure(limit)} = {lower / limit:.1%} of the limit: the median of "
            "what the best possible test certifies at this number of trials"
        )
    smallest, sure = "", []
    if detectable is not None:
        multiple = f" ({times(detectable)})" if claim else ""
        smallest = (
            "none: the guesses were too few at this budget; raise the number of trials"
            if math.isinf(detectable)
            else f"{symbol} = {figure(detectable)}{multiple}, with probability 0.9"
        )
    if confidence is not None:
        sure.append(
            f"confidence {confidence:.12g}: the certified bound is too high with probability at "
            f"most {1 - confidence:.6g}"
        )
        if p is not None:
            sure.append(f"p {p_value(p)}, corrected for all interim looks and all pairs")
    return [
        Fact("certified", "; ".join(filter(None, [*certified, times(lower)]))),
        Fact("of the best possible", share),
        Fact("smallest violation of this event's kind that would have been found", smallest),
        Fact("how sure", "; ".join(sure)),
    ]


def _describe_enclosure(result: Json, symbol: str) -> str:
    """Return the white-box enclosure that a suite adds to a black-box result."""
    found = result.get("enclosure")
    if not found or "parameter_lower" not in found:
        return str(found["none"]) if found else ""
    return f"{symbol} in {enclosure(found)}: {found['route']}; upper end: {found['upper_end']}"


def _describe_budget(result: Json) -> str:
    total, allowed = as_number(result.get("trials")), as_number(result.get("requested"))
    more = "" if None in (total, allowed) or allowed == total else f" of {count(allowed)} allowed"
    return f"{count(total)} runs of the mechanism{more}"


def _describe_tally(tally: dict[str, int] | None) -> str:
    if not tally:
        return ""
    total = tally["correct"] + tally["wrong"]
    share = f" ({tally['correct'] / total:.4%} of the guesses)" if total else ""
    sides = "both datasets are guessed" if tally["directions"] == 2 else "one dataset is guessed"
    return (
        f"{tally['correct']:,} right{share} and {tally['wrong']:,} wrong guesses of the dataset, "
        f"which was drawn by chance {tally['rounds']:,} times; {sides}"
    )


def _describe_tallies(result: Json) -> str:
    """Return the tally of the event, and the tallies of the earlier events, whose rounds were used
    for training.
    """
    own = _describe_tally(result.get("tally"))
    earlier = [_describe_tally(stage) for stage in (result.get("stages") or [])[:-1]]
    more = [f"before it, for an earlier event: {words}" for words in earlier]
    return "; ".join([f"{own}, for the event above", *more]) if more else own


def _describe_bit_level(result: Json) -> str:
    bits = result.get("bit_level")
    if not bits:
        return (
            "not examined: not requested, the outputs are not floating-point numbers, or the audit "
            "ended early"
        )
    verdict = (
        "distinguishable, not counted; round outputs to a grid"
        if bits["verdict"] == Verdict.VIOLATED.value
        else str(bits["verdict"]).replace("NOT_REFUTED", "nothing found")
    )
    own = bits.get("pair") if bits.get("pair") != result.get("pair") else None
    pair = f"on another pair: {dataset(own['d0'])} and {dataset(own['d1'])}" if own else ""
    parts = (
        f"{verdict} (separate from the verdict on values); "
        f"{beyond('epsilon', bits.get('epsilon_lower'))}",
        pair,
        bits.get("description") or "",
        _describe_tally(bits.get("tally")),
    )
    return "; ".join(filter(None, parts))


def _describe_pairs(result: Json, symbol: str) -> str:
    pairs = result.get("pairs") or []
    if len(pairs) < 2:
        return ""
    ranked = sorted(pairs, key=lambda each: as_number(each.get("expected")) or 0.0, reverse=True)
    shown = [
        f"{each['why']} ({symbol} {figure(each['expected'])}"
        f"{', confirmed' if each['confirmed'] else ''})"
        for each in ranked[:5]
    ]
    more = [f"and {len(pairs) - 5} more"] if len(pairs) > 5 else []
    return f"{len(pairs)}, ranked on separate runs: " + "; ".join(shown + more)


def _untested(results: list[Json]) -> list[str]:
    tried = sum(max(1, len(result.get("pairs") or [])) for result in results)
    others = f"the {tried:,} neighboring pairs" if tried > 1 else "the one neighboring pair"
    found = [
        f"Pairs other than {others} on which mechanisms were run; violations smaller than the "
        "detectable ones, or of another kind, such as a raw value in one of a million outputs."
    ]
    without_bits = sum(result.get("bit_level") is None for result in results)
    if without_bits:
        found.append(
            f"Float rounding, in {without_bits} of {len(results)}: not requested, or the outputs "
            "are not floating-point numbers."
        )
    return found


# -- checks of a written result

# fields that are needed to recompute bounds
_NEEDED = (
    *("tally", "claim_numbers", "confidence", "parameter_lower", "epsilon_lower", "p_value"),
    "alpha",
)


def _recompute(result: Json) -> Recomputed:
    """Check the bounds, p-value and verdict of a black-box audit, the evidence of its trace, its
    bit level, its causes, and the counts of the last interim look.
    """
    _check_trace(result)
    if "basis" not in result and not all(key in result for key in _NEEDED):
        claim, lower = claim_of(result), as_number(result.get("parameter_lower"))
        if claim is not None and lower is not None:
            _require_verdict(result, lower, claim)
        return Recomputed()
    claim = exact_claim(result["claim"], result["claim_numbers"])
    error = 1 - float(result["confidence"])
    values = _check_bounds(result, claim, error)
    if result.get("bit_level"):
        values["bit_level.epsilon_lower"] = _bit_level_bound(result, claim, error)
    _check_causes(result, claim, error)
    if result["tally"] is not None:
        _check_last_look(result, error)
    return Recomputed(result["tally"] is not None, values)


def _check_causes(result: Json, claim: Claim, error: float) -> None:
    """Raise InvalidArgument if the bound or the verdict of a cause contradicts its counts."""
    for data in result.get("causes", []):
        cause = Cause.from_json(data)
        document = data | {
            "name": f"{result.get('name', '')} ({data['kind']})",
            "guessed": result.get("guessed"),
        }
        require_allowed_error(document, cause.alpha * PARTS, error)
        own_bound = cause.judged(claim).lower
        require_stated_value(document, "parameter_lower", own_bound)
        _require_verdict(document, own_bound, claim)


def _check_last_look(result: Json, error: float) -> None:
    """Raise InvalidArgument if the certified point does not follow from the counts of the last
    interim look; an earlier look may have certified a larger bound.
    """
    alpha, counts = float(result["alpha"]), read_part(result["tally"]).tally
    point = None
    if alpha > 0:
        require_allowed_error(result, alpha, error)
        if counts.correct + counts.wrong:
            point = strict(asdict(certified_point(counts, alpha)))
    if "certified_point" in result and not is_same(result["certified_point"], point):
        raise_damaged(result, "certified_point", point, result["certified_point"])


def _check_trace(result: Json) -> None:
    """Raise InvalidArgument if the grade of the evidence, or the verdict, contradicts the trace."""
    verdict, stated, trace = result["verdict"], result.get("evidence"), result.get("trace") or {}
    exceeds, findings = bool(trace.get("exceeds")), trace.get("findings") or []
    if exceeds and verdict == "NOT_REFUTED":
        raise_damaged(result, "verdict", "INCONCLUSIVE, as its trace exceeds the claim", verdict)
    contrary = (exceeds, trace.get("doubt"), not trace.get("calls"), findings)
    if trace.get("verdict") == "SUPPORTED" and any(contrary):
        raise_damaged(
            result,
            "trace",
            "VIOLATED or INCONCLUSIVE, as its calls do not account for the outputs within the "
            "claim",
            "SUPPORTED",
        )
    doubted = any(finding.get("kind") == "ACCOUNT" for finding in findings)
    if stated is not None:
        assumed = verdict == "INCONCLUSIVE" and (exceeds or (doubted and stated == "assumed"))
        require_field(result, "evidence", "assumed" if assumed else "statistical", stated)


def _check_bounds(result: Json, claim: Claim, error: float) -> dict[str, float]:
    """Return the bounds and the p-value that the counts give. Raise InvalidArgument if the stated
    numbers or the verdict differ.
    """
    values, lower = dict[str, float](), float(result["parameter_lower"])
    if result.get("basis") is None:
        require_stated_value(result, "parameter_lower", 0.0)
    else:
        basis, event = Basis.from_json(result["basis"]), read_event(result["event"])
        for alpha in (basis.alpha, *([basis.cells_alpha] if basis.cells else [])):
            require_allowed_error(result, alpha, error)
        values["parameter_lower"], values["epsilon_lower"] = basis.bounds(claim, event)
        if not basis.cells:
            values["p_value"] = basis.p_value(claim, error)
        for key, found in values.items():
            require_stated_value(result, key, found)
    _require_verdict(result, lower, claim)
    p_value = float(result["p_value"])
    refuted = lower > claim.parameter and not (result.get("basis") or {}).get("cells")
    if refuted and not p_value <= error * (1 + BOUND_TOLERANCE):
        raise_contradiction(
            result,
            f"a refuted claim has a p-value of at most {error:.6g}, but the document states "
            f"{p_value:.6g}",
        )
    return values


def _bit_level_bound(result: Json, claim: Claim, error: float) -> float:
    """Return the bound that the counts of the low bits certify. Raise InvalidArgument if the stated
    bound or verdict differs.
    """
    level: Json = {
        "name": f"{result.get('name', '')} (bit level)",
        "guessed": result.get("guessed"),
    } | result["bit_level"]
    bound, is_leak = 0.0, False
    if level.get("tally") is not None:
        tally, alpha = read_part(level["tally"]).tally, float(level["alpha"])
        require_allowed_error(result, alpha, error)
        numbers = (tally.correct, tally.wrong, tally.rounds, alpha, tally.directions)
        bound = float(certified(claim.at_delta, *numbers, level["lost"]))
        is_leak = float(certified(claim, *numbers, level["lost"])) > claim.parameter
    require_stated_value(level, "epsilon_lower", bound)
    require_verdict(
        level, Verdict(level["verdict"]), is_leak, f"a bound of {bound:.6g} against {claim}"
    )
    return bound


def _require_verdict(document: Json, lower: float, claim: Claim) -> None:
    """Raise InvalidArgument if the verdict of a result or of a cause contradicts its bound."""
    require_verdict(
        document,
        Verdict(document["verdict"]),
        lower > claim.parameter,
        f"a bound of {lower:.6g} against {claim}",
    )


def _headline(result: Json) -> str | None:
    """Return the headline that the numbers of a result give; None if a number is missing."""
    lower, confidence, detectable = (
        as_number(result.get(key)) for key in ("parameter_lower", "confidence", "detectable")
    )
    claim, notes = claim_of(result), result.get("notes") or []
    if claim is None or lower is None or confidence is None or detectable is None:
        return None
    return headline_of(
        claim,
        Verdict(result["verdict"]),
        lower,
        confidence,
        detectable,
        str(notes[0]) if notes else "",
    )


# -- replay


def _replay(case: Replay, mechanism: Any, options: RunOptions) -> tuple[Any, str, tuple[str, ...]]:
    """Test the event of a witness again, on fresh runs."""
    with case.naming():
        witness = read_checked_witness(case.raw, case.file, case.trust.resolve_class)
        claims = case.claim_notes(witness.pair, witness.claim, mechanism)
    assert witness.event is not None
    result = confirm(
        mechanism,
        witness.event,
        claim=witness.claim,
        pair=witness.pair,
        trials=options.runs(witness.rounds),
        confidence=options.confidence,
        seed=options.seed,
        executor=options.executor,
        progress=options.progress,
        scores=_recorded_scores(case, mechanism),
        name=case.mechanism_name(mechanism),
        target=case.target_record(mechanism),
    )
    return result, witness.describe(), claims


def _recorded_scores(case: Replay, mechanism: Any) -> tuple[Score, ...]:
    """Return the recorded scores, whose columns the event refers to."""
    found, remaining_scores = [], list(case.scores)
    for recorded in case.raw.get("scores", []):
        keys = tuple(recorded["keys"])
        if recorded["suggested"]:
            own = suggested_score(mechanism)
            if own is None:
                raise InvalidArgument(
                    "replay: mechanism must have features(outputs), which the event of the "
                    f"witness uses; {name_of(mechanism)} has none"
                )
            found.append(replace(own, keys=keys))
            continue
        score = remaining_scores.pop(0)
        if isinstance(score, PlannedTarget):
            score = Score(recorded["name"], score.load(), recorded["target"])
        found.append(replace(score, keys=keys))
    return tuple(found)


KIND = Kind(
    name="black box",
    facts=_facts,
    untested=_untested,
    headline=_headline,
    fields={
        "trace": nullable(
            present(
                {
                    "pair": text(TEXT),
                    "claimed": nullable(EXTENDED),
                    "loss": nullable(EXTENDED),
                    "exceeds": boolean,
                    "runs": integer(),
                    "doubt": text(TEXT),
                }
            )
        )
    },
    recompute=_recompute,
    read=read_checked_witness,
    witness=(
        {"scores": SCORES},
        ON_PAIR
        | {
            "level": one_of("value", "bit"),
            "event": anything,
            "description": text(200_000),
            "trials": integer(1, 10**12),
            "counts": COUNTS,
        },
    ),
    replay=_replay,
)
