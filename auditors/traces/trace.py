"""Entry point of the gray-box audit, `dpwitness.trace`: choose the worst pair, examine its trace,
and confirm findings by an audit. The kind of its results: facts of cards, checks, and replay.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from typing import Any

from dpwitness.auditors.audit.audit import Progress, audit
from dpwitness.auditors.audit.options import require_attributes
from dpwitness.auditors.audit.result import AuditResult
from dpwitness.auditors.search.catalogue import audited_pairs, require_domain
from dpwitness.auditors.search.explore import explore
from dpwitness.auditors.traces import first_look
from dpwitness.auditors.traces.coupling import PairEvidence
from dpwitness.auditors.traces.evidence import FINDINGS
from dpwitness.auditors.traces.pair_analysis import MAY_BE_CHANCE, examine, glance
from dpwitness.auditors.traces.result import CONFIRMED, TraceResult
from dpwitness.auditors.traces.sessions import SessionRecorder, opened, validate_primitives
from dpwitness.auditors.witnesses.kinds import (
    CardTable,
    Fact,
    Facts,
    Kind,
    Recomputed,
    claim_facts,
    pair_facts,
    raise_damaged,
    recompute_bounds,
    require_stated_value,
    run_facts,
)
from dpwitness.auditors.witnesses.replay import Replay, RunOptions
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.auditors.witnesses.witness_reader import ON_PAIR, read_pair
from dpwitness.auditors.workers.descriptions import describe_target
from dpwitness.core.claims import Claim, exact_claim, promised, resolved
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.domains import Domain
from dpwitness.core.protocols import MechanismFailed, name_of
from dpwitness.core.values.json_reader import Json, integer, items, listing, record, text
from dpwitness.core.values.validation import (
    InvalidArgument,
    require_callable,
    require_integer,
    require_positive,
    require_probability,
    require_run_options,
    require_type,
)
from dpwitness.core.values.wording import count, figure
from dpwitness.mechanisms.wrappers.recording.recorder import Stopped

TRIALS = 40_000  # default number of runs of the confirming audit
_EXTRA_PAIRS = 2  # further pairs that the confirming audit may use


def trace(
    mechanism: Any,
    pair: Pair | Sequence[Pair] | Domain | None = None,
    claim: Claim | str | None = None,
    primitives: Any = None,
    *,
    domain: Domain | None = None,
    pairs: int | None = None,
    confirm: bool = True,
    trials: int | None = None,
    confidence: float = 0.99,
    seed: int = 0,
    time_limit: float = 60.0,
    executor: Executor | None = None,
    name: str | None = None,
    progress: Progress | None = None,
    target: Json | None = None,
) -> TraceResult:
    """Record the noise primitives of a run on one dataset, replay them on a neighboring dataset,
    and compare the runs.

    Parameters
    ----------
    mechanism : Mechanism, Target or callable
        As for `audit`. The mechanism runs a few times, with size 1.
    pair : Pair, list of Pair or Domain, optional
        Pairs to examine. Default: the mechanism's own domain. Of several pairs, the pair that looks
        worst is examined.
    claim : Claim or str, optional
        The end-to-end claim. Default: ``mechanism.claim``.
    primitives : dict or list, optional
        Primitives in addition to the known ones, as in
        `mechanisms.wrappers.recording.primitives.Primitive`: dotted names, or functions of a
        module, with their descriptions, such as ``{"mine.noise": {"law": "laplace", "input":
        "value", "scale": "s / epsilon"}}``.
    domain : Domain, optional
        A domain, as an alternative to `pair`.
    pairs : int
        Number of pairs of a domain to compare; each pair costs two runs. Default: the first 8 of
        the domain's catalog. A search finds further pairs.
    confirm : bool
        Whether an `audit` tests findings on the pair, and on up to two others that look as bad.
        Without confirmation, the verdict is never VIOLATED.
    trials, confidence : int, float
        Number of runs and confidence of the confirming audit. Default: 40,000 runs, or the
        mechanism's own ``trials``; 0.99.
    seed : int
        Root of all randomness.
    time_limit : float
        Time limit of one run, in seconds.
    executor, progress
        Options of the confirming audit.
    name : str, optional
        Name of the mechanism in the report.
    target : dict, optional
        Description by which the mechanism can be found again, for the witness.

    Returns
    -------
    TraceResult
        VIOLATED only if the audit certified a violation. `findings` lists the differences and
        defects that the trace shows.

    Raises
    ------
    InvalidArgument
        If an argument is invalid, or a primitive does not exist. Errors of the mechanism end in the
        verdict ERROR instead.

    Examples
    --------
    >>> import numpy as np
    >>> def total(dataset, size, rng):
    ...     return dataset.sum() + rng.laplace(0.0, 1.0, size)
    >>> pair = Pair(np.array([0.0, 1.0]), np.array([3.0, 1.0]), "replace-one")
    >>> result = trace(total, pair, "pure:1", confirm=False)
    >>> result.verdict.value, str(result.findings[0])
    ('INCONCLUSIVE', 'LOSS: the losses of the calls compose to epsilon = 3, claimed 1')
    """
    begin = time.perf_counter()
    require_callable("mechanism", getattr(mechanism, "sample", mechanism), "trace")
    require_attributes(mechanism)
    promise = promised(mechanism, claim, "trace")
    entries = validate_primitives(primitives, "trace")
    seed = require_integer("seed", seed, "trace", least=0)
    if pairs is not None:
        pairs = require_integer("pairs", pairs, "trace", most=10**6)
    require_positive("time_limit", time_limit, "trace")
    require_probability("confidence", confidence, "trace")
    require_type("name", name, str, "be a text", "trace", optional=True)
    require_run_options(executor, progress, None, "trace")
    own = getattr(mechanism, "trials", None) or TRIALS
    budget = require_integer(
        "trials", own if trials is None else trials, "trace", least=1000, most=10**12
    )
    if pair is not None and domain is not None:
        raise InvalidArgument("trace: pair and domain must not be given together")
    if isinstance(pair, Domain):
        pair, domain = None, pair
    if domain is not None:
        require_domain(domain, "trace")
    candidates = audited_pairs(mechanism, pair, domain)
    searched = None if pair is not None else domain or getattr(mechanism, "domain", None)
    fields: Json = {
        "name": name or name_of(mechanism),
        "confidence": confidence,
        "seed": seed,
        "subject": mechanism,
        "target": target or describe_target(mechanism),
        "primitives": {entry[0]: entry[1] for entry in entries},
    }
    with opened(mechanism, entries, time_limit) as step:
        recorder = SessionRecorder(step, seed)
        try:
            worst, *others = _choose_pairs(recorder, promise, searched, candidates, pairs)
            asked = tuple(entry[0] for entry in entries)
            evidence = examine(
                recorder, worst, promise, asked, seeded=bool(getattr(mechanism, "seeded", True))
            )
        except (MechanismFailed, Stopped) as error:
            timed_out = isinstance(error, Stopped) and str(error) in ("", "time limit")
            late = f"a run took longer than time_limit = {time_limit:g} s"
            return TraceResult(
                verdict=Verdict.ERROR,
                claim=promise,
                pair=None,
                findings=(),
                calls=(),
                loss=math.nan,
                charged=math.nan,
                notes=(late if timed_out else str(error),),
                **fields,
                **_costs(recorder, begin),
            )
    fields["claim"], claim_notes = resolved(promise, worst)
    evidence = replace(evidence, notes=(*evidence.notes, *claim_notes))
    result: AuditResult | None = None
    # no audit of outputs can confirm a finding about a source
    kinds = {finding.kind for finding in (*evidence.findings, *evidence.suspicions)}
    if confirm and kinds - {"SOURCE"}:
        result = audit(
            mechanism,
            claim=promise,
            pair=[worst, *others],
            trace=False,
            trials=budget,
            confidence=confidence,
            seed=seed,
            executor=executor,
            progress=progress,
            stop="violation",
            bits=False,
            name=name,
            target=target,
        )
    return _make_result(evidence, worst, result, fields | _costs(recorder, begin))


def _costs(recorder: SessionRecorder, begin: float) -> Json:
    return {
        "runs": recorder.runs,
        "seconds": time.perf_counter() - begin,
        "cpu_seconds": recorder.cpu,
    }


def _choose_pairs(
    recorder: SessionRecorder,
    promise: Claim,
    domain: Domain | None,
    candidates: list[Pair],
    most: int | None,
) -> list[Pair]:
    """Return the pair that looks worst, and other bad pairs on which an audit may confirm the
    findings.
    """
    score, scored = partial(glance, recorder, promise=promise), list[tuple[float, Pair]]()
    if domain is not None and (most or 0) > len(candidates):
        found = explore(
            domain,
            lambda pair, _: (score(pair), None),
            evaluations=most or 8,
            seconds=3600.0,
            seed=recorder.seed,
            max_candidates=_EXTRA_PAIRS + 1,
        )
        scored = [(each.value, each.pair) for each in found.candidates]
    if not scored:
        looked_at = candidates if domain is None else candidates[: most or 8]
        if len(looked_at) == 1:
            return looked_at
        scored = sorted(((score(pair), pair) for pair in looked_at), key=lambda each: -each[0])
    (_, worst), *others = scored[: _EXTRA_PAIRS + 1]
    return [worst, *(pair for value, pair in others if value > 1)]


def _make_result(
    evidence: PairEvidence, pair: Pair, result: AuditResult | None, fields: Json
) -> TraceResult:
    """Return the TraceResult of the examined pair and the confirming audit."""
    verdict = Verdict.NOT_REFUTED if result is None else result.verdict
    expected = getattr(fields["subject"], "expected_findings", None) or {}
    findings, notes = (*evidence.findings, *evidence.suspicions), [*evidence.notes]
    if verdict not in CONFIRMED:
        findings = tuple(f for f in evidence.findings if f.kind not in expected)
        notes += [
            *(
                f"expected, {expected[f.kind]}: {f}"
                for f in evidence.findings
                if f.kind in expected
            ),
            *(
                f"seen in a few runs, which may be chance, and not confirmed: {finding}"
                for finding in evidence.suspicions
            ),
        ]
    if result is not None and verdict is Verdict.ERROR:
        notes.append(f"the audit ended in {result.headline()}")
    doubt, loss = evidence.doubt, evidence.loss
    if evidence.suspicions and result is None and not (findings or doubt):
        suspicion, loss = evidence.suspicions[0], math.nan
        doubt = f"{MAY_BE_CHANCE} and was not tried by an audit: {suspicion}"
    if verdict not in CONFIRMED:
        verdict = Verdict.INCONCLUSIVE if findings or doubt else Verdict.NOT_REFUTED
    return TraceResult(
        verdict=verdict,
        pair=pair,
        findings=findings,
        calls=evidence.calls.summary(),
        loss=loss,
        charged=evidence.charged,
        doubt=doubt,
        audit=result,
        notes=tuple(filter(None, [*notes, pair.unchecked])),
        **fields,
    )


# -- written results and witnesses


def _facts(result: Json) -> Facts:
    symbol = result.get("parameter", "epsilon")
    facts = [
        *claim_facts(result),
        *(
            Fact("finding", f"{text} at {where}" if where else text)
            for text, where in _findings(result)
        ),
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


def _calls_table(result: Json) -> CardTable | None:
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
    return (header, rows, (0, 8)) if rows else None


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
    determined = bool(audit) and recompute_bounds(dict(audit)).determined
    for key in {"parameter_lower", "epsilon_lower"} & result.keys():
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
    first_look=first_look,
)
