"""The kind of white-box audits: facts of their cards, checks of written results, and replay of
their witnesses.
"""

from __future__ import annotations

from typing import Any

from dpwitness.auditors.density.certify import certify
from dpwitness.auditors.density.result import SOUND, grade_of
from dpwitness.auditors.witnesses.kinds import (
    Fact,
    Facts,
    Kind,
    Recomputed,
    claim_facts,
    claim_of,
    enclosure,
    pair_facts,
    raise_damaged,
    require_field,
    run_facts,
)
from dpwitness.auditors.witnesses.replay import Replay, RunOptions
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.auditors.witnesses.witness_reader import EXTENDED, ON_PAIR, read_checked_witness
from dpwitness.core.values.json_reader import Json, anything, integer, one_of, record, text
from dpwitness.core.values.wording import count, figure, number

_ROUNDING = 1e-9


def _facts(result: Json) -> Facts:
    symbol = result.get("parameter", "epsilon")
    facts = claim_facts(result)
    if result.get("verdict") != Verdict.ERROR.value:
        facts.append(Fact(symbol, f"in {enclosure(result)}, both orders of the pair"))
        if symbol != "epsilon":
            ends = (figure(result.get(f"epsilon_{end}"), 6) for end in ("lower", "upper"))
            facts.append(Fact("epsilon at delta = 0", f"in [{', '.join(ends)}]"))
        confidence = figure(result.get("confidence"), 12)
        facts += [
            Fact("how it was had", result.get("route", "")),
            Fact("evidence", result.get("evidence", "")),
            Fact("what the lower end rests on", result.get("lower_end", "")),
            Fact("what the upper end rests on", result.get("upper_end", "")),
            Fact("density against sampler", result.get("mismatch") or ""),
            Fact("event", result.get("description") or ""),
            Fact("how sure", f"confidence {confidence} for all sampled quantities"),
        ]
    return [
        *facts,
        Fact("budget", f"{count(result.get('trials'))} runs of the mechanism"),
        *pair_facts(result),
        *run_facts(result),
    ]


def _recompute(result: Json) -> Recomputed:
    """Check the verdict against the ends of the enclosure, their evidence, and the claim."""
    claim, verdict = claim_of(result), Verdict(result["verdict"])
    low, high = (number(result.get(f"parameter_{end}")) for end in ("lower", "upper"))
    if claim is None or low is None or high is None or verdict is Verdict.ERROR:
        return Recomputed()
    grades = {
        end: grade_of(str(result.get(f"{end}_end", "numerical"))) for end in ("lower", "upper")
    }
    if low > high * (1 + _ROUNDING):
        raise_damaged(result, "parameter_lower", f"at most parameter_upper, {high:.6g}", low)
    most = claim.parameter * (1 + 1e-6) + _ROUNDING
    reached = claim.parameter * (1 - 1e-6) - _ROUNDING
    wrong = {
        Verdict.VIOLATED: low < reached or grades["lower"] not in SOUND,
        Verdict.CERTIFIED: high > most or grades["upper"] not in SOUND,
        Verdict.SUPPORTED: high > most,
        Verdict.INCONCLUSIVE: (high < reached and grades["upper"] in SOUND)
        or (low > most and grades["lower"] in SOUND),
    }.get(verdict, True)
    if wrong:
        ends = f"[{low:.6g}, {high:.6g}], {grades['lower']} and {grades['upper']}, against {claim}"
        right = f"a verdict that agrees with its enclosure, {ends}"
        raise_damaged(result, "verdict", right, verdict.value)
    deciding = grades["lower" if verdict is Verdict.VIOLATED else "upper"]
    require_field(result, "evidence", deciding, result.get("evidence", deciding))
    return Recomputed()


def _replay(case: Replay, mechanism: Any, options: RunOptions) -> tuple[Any, str, tuple[str, ...]]:
    """Enclose the privacy loss of the pair again."""
    with case.naming():
        witness = read_checked_witness(case.raw, case.file, case.trust.resolve_class)
        claims = case.claim_notes(witness.pair, witness.claim, mechanism)
    result = certify(
        mechanism,
        witness.pair,
        claim=witness.claim,
        trials=max(options.runs(witness.rounds), 10_000),
        confidence=options.confidence,
        seed=options.seed,
        name=case.mechanism_name(mechanism),
        target=case.target_record(mechanism),
    )
    return result, witness.describe(), claims


KIND = Kind(
    name="white box",
    facts=_facts,
    advice={
        Verdict.CERTIFIED.value: (
            "no change is needed for this pair; other pairs were not examined: `--search` looks "
            "for worse ones."
        ),
        Verdict.SUPPORTED.value: (
            "no change is needed for this pair on this evidence, which is numerical or assumed, "
            "not proved."
        ),
        Verdict.INCONCLUSIVE.value: (
            "the claim lies inside the enclosure: more trials narrow it, where outputs were "
            "sampled."
        ),
    },
    untested=lambda results: [
        "Differences between the code and its density: a white-box verdict is about the formula, "
        "which a few runs compare with the sampler."
    ],
    certifies=True,
    recompute=_recompute,
    read=read_checked_witness,
    witness=(
        {"evidence": text(400)},
        ON_PAIR
        | {
            "event": record(kind=one_of("loss"), above=EXTENDED, output=anything),
            "description": text(200_000),
            "trials": integer(1, 10**12),
            "route": text(2000),
        },
    ),
    replay=_replay,
)
