"""The kind of gray-box traces: facts of their cards, checks of written results, and replay of their
witnesses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpwitness.auditors.traces.evidence import FINDINGS
from dpwitness.auditors.traces.sessions import validate_primitives
from dpwitness.auditors.traces.trace import trace
from dpwitness.auditors.witnesses.facts import Fact, Facts, claim_facts, pair_facts, run_facts
from dpwitness.auditors.witnesses.kinds import Kind, recompute_bounds
from dpwitness.auditors.witnesses.recompute import Recomputed, raise_damaged, require_stated_value
from dpwitness.auditors.witnesses.replay import Replay, RunOptions
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.auditors.witnesses.witness_reader import ON_PAIR, read_pair
from dpwitness.core.claims import exact_claim
from dpwitness.core.values.json_reader import Json, integer, items, listing, record, text
from dpwitness.core.values.wording import count, figure


def _facts(result: Json) -> Facts:
    symbol = result.get("parameter", "epsilon")
    facts = [
        *claim_facts(result),
        *(Fact("finding", _describe_finding(each)) for each in result.get("findings") or []),
    ]
    if result.get("verdict") != Verdict.ERROR.value:
        loss, charged, audit = (result.get(key) for key in ("loss", "charged", "audit"))
        composed = f"{symbol} = {figure(loss, 6)}, for this pair and this trace"
        facts += [
            Fact("doubt", result.get("doubt") or ""),
            Fact(
                "loss of the calls together",
                "unknown for some calls" if loss == "nan" else composed,
            ),
            Fact(
                "charged to accountants",
                f"epsilon = {figure(charged, 6)}" if charged != "nan" else "",
            ),
            Fact("audit", audit["headline"] if audit else ""),
        ]
    return [
        *facts,
        Fact("budget", f"{count(result.get('runs'))} runs for the trace"),
        *pair_facts(result),
        *run_facts(result),
    ]


def _describe_finding(finding: Json) -> str:
    where = f" at {finding['where']}" if finding.get("where") else ""
    return f"{finding['kind']}: {finding['told']}{where}"


def _calls_table(result: Json) -> tuple[Sequence[str], list[list[str]]] | None:
    """Return the calls, one row per primitive and source line."""
    numbers = ("distance", "declared", "scale", "epsilon")
    header = ("primitive", "law", "calls", "input on D1 / D0", *numbers, "line")
    rows = [
        [
            call["primitive"],
            call["law"],
            count(call["times"]),
            "noise moves" if call.get("aligned") else call["input"],
            *("" if call[key] == "nan" else figure(call[key], 6) for key in numbers),
            call["where"] or "-",
        ]
        for call in result.get("calls") or []
    ]
    return (header, rows) if rows else None


def _findings(result: Json) -> list[tuple[str, str]]:
    return [
        (
            f"{each.get('kind')}: {each.get('told') or FINDINGS.get(str(each.get('kind')), '')}",
            str(each.get("where") or ""),
        )
        for each in result.get("findings") or []
    ]


def _recompute(result: Json) -> Recomputed:
    """Check the verdict against the findings and the audit that tried to confirm them."""
    audit, verdict = result.get("audit") or {}, result["verdict"]
    determined = recompute_bounds(dict(audit)).determined if audit else False
    for key in ("parameter_lower", "epsilon_lower"):
        if result.get(key) is not None:
            require_stated_value(result, key, float(audit.get(key, 0.0)))
    confirmed = audit.get("verdict") in ("VIOLATED", "SUSPECT")
    if verdict == "VIOLATED" and not confirmed:
        raise_damaged(result, "verdict", "INCONCLUSIVE, as no audit confirms it", verdict)
    if verdict == "NOT_REFUTED" and (confirmed or result.get("findings") or result.get("doubt")):
        raise_damaged(result, "verdict", "VIOLATED" if confirmed else "INCONCLUSIVE", verdict)
    return Recomputed(determined and verdict == "VIOLATED")


def _replay(case: Replay, mechanism: Any, options: RunOptions) -> tuple[Any, str, tuple[str, ...]]:
    """Trace the pair again. Nothing that the primitives name is imported."""
    raw = case.raw
    with case.naming():
        result = trace(
            mechanism,
            read_pair(raw["pair"], case.trust.resolve_class),
            exact_claim(raw["claim"], raw["claim_numbers"]),
            validate_primitives(raw["primitives"], "replay", required=False),
            confidence=options.confidence,
            seed=options.seed,
            confirm=False,
            name=case.mechanism_name(mechanism),
            target=case.target_record(mechanism),
        )
    recorded = "; ".join(each["kind"] for each in raw["findings"])
    return result, f"replay of a trace with the recorded findings {recorded}", ()


KIND = Kind(
    name="trace",
    facts=_facts,
    table=_calls_table,
    advice={
        Verdict.INCONCLUSIVE.value: (
            "look at the lines that the findings name: two runs show them, but they are not "
            "certified. Without findings, the recorded noise does not account for the outputs: "
            "`dpwitness audit` tests them."
        ),
        Verdict.NOT_REFUTED.value: (
            "no change is needed on this evidence, which is one pair of runs and not a proof for "
            "others."
        ),
    },
    untested=lambda results: [
        "Runs that take another path through the code than those that were recorded."
    ],
    topic="sensitivity",
    suspicion="TRACE",
    findings=_findings,
    recompute=_recompute,
    witness=(
        {},
        ON_PAIR
        | {
            "findings": listing(
                record(kind=text(40, empty=False), told=text(20_000), where=text(2000)), 1, 1000
            ),
            "runs": integer(1, 10**9),
            "primitives": items(items(text(400))),
        },
    ),
    replay=_replay,
)
