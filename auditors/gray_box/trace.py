"""`dpwitness.trace`: the pair that looks worst, all that its trace shows, and the audit that confirms it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Any

from dpwitness.auditors.black_box.audit import audit
from dpwitness.auditors.black_box.course import Progress
from dpwitness.auditors.gray_box.examining import Examiner
from dpwitness.auditors.gray_box.seen import Seen
from dpwitness.auditors.gray_box.sessions import opened
from dpwitness.auditors.pairs.catalogue import pairs_for, require_neighbours
from dpwitness.auditors.pairs.search import explore
from dpwitness.auditors.results.audit_result import AuditResult
from dpwitness.auditors.results.trace_result import Finding, TraceResult
from dpwitness.auditors.results.verdicts import Verdict
from dpwitness.auditors.targets.naming import describe_target
from dpwitness.mechanisms.domains import Domain
from dpwitness.mechanisms.foreign.described import require_attributes
from dpwitness.mechanisms.recording.catalogue import given
from dpwitness.mechanisms.recording.recorder import Stopped
from dpwitness.mechanisms.terms.notions import Claim, promised, resolved
from dpwitness.mechanisms.terms.pairs import Pair
from dpwitness.mechanisms.terms.protocol import MechanismFailed, name_of
from dpwitness.mechanisms.terms.reading import Json
from dpwitness.mechanisms.terms.validation import (
    InvalidArgument,
    require_callable,
    require_integer,
    require_positive,
    require_probability,
    require_runner,
    require_type,
    shown,
)

TRIALS = 40_000  # runs of an audit that confirms, where nobody says how many
_ALSO = 2  # further pairs that an audit may confirm on
_PAIRS = 8  # pairs of a domain that are looked at, where nobody says how many
_UNCONFIRMED = ("SOURCE",)  # kinds that no audit of outputs can confirm by themselves


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
    """Record what the noise primitives give on one dataset, play it back on its neighbour, and compare everything.

    Parameters
    ----------
    mechanism : Mechanism, Target or callable
        As for `audit`; it runs a few times, with size 1.
    pair : Pair, list of Pair or Domain, optional
        Where to look; the mechanism's own domain if left out. Of several pairs the one that looks worst is examined.
    claim : Claim or str, optional
        The end-to-end promise; ``mechanism.claim`` if left out.
    primitives : dict or list, optional
        Primitives beside those that are known, as `mechanisms.recording.primitives.Primitive` says: dotted names, or functions of a module,
        to what is said of them, such as ``{"mine.noise": {"law": "laplace", "input": "value", "scale": "s / epsilon"}}``.
    domain : Domain, optional
        The same as `pair`, by name.
    pairs : int
        How many pairs of a domain are looked at; each costs two runs. By default the first 8 of its catalogue; a search finds more.
    confirm : bool
        Whether findings are tried by an `audit` on the pair, and on two others that look as bad. Without, nothing is ever VIOLATED.
    trials, confidence : int, float
        Of that audit. Default: 40,000 runs, or the mechanism's own ``trials``; 0.99.
    seed : int
        Root of all randomness.
    time_limit : float
        Seconds that one run may take.
    executor, progress
        Of the audit.
    name : str, optional
        For the report.
    target : dict, optional
        How to find the mechanism again, for the witness.

    Returns
    -------
    TraceResult
        VIOLATED only where the audit has certified it. What the trace shows by itself is in its `findings`.

    Raises
    ------
    InvalidArgument
        If an argument breaks its rule, or a primitive is not there. What the mechanism does wrong ends in the verdict ERROR instead.

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
    claim = promised(mechanism, claim, "trace")
    entries = given(primitives, "trace")
    seed = require_integer("seed", seed, "trace", least=0)
    if pairs is not None:
        pairs = require_integer("pairs", pairs, "trace", most=10**6)
    require_positive("time_limit", time_limit, "trace")
    require_probability("confidence", confidence, "trace")
    require_type("name", name, str, "be a text", "trace", optional=True)
    require_runner(executor, progress, None, "trace")
    own = getattr(mechanism, "trials", None) or TRIALS
    budget = require_integer("trials", own if trials is None else trials, "trace", least=1000, most=10**12)
    found_domain, candidates = _where(mechanism, pair, domain)
    named = {"name": name or name_of(mechanism), "claim": claim, "confidence": confidence, "seed": seed, "mechanism": mechanism}
    named["target"] = target or describe_target(mechanism)
    named["primitives"] = {entry[0]: entry[1] for entry in entries}
    seeded = bool(getattr(mechanism, "seeded", True))
    with opened(mechanism, entries, time_limit) as session:
        examiner = Examiner(session, claim, seed, seeded, tuple(entry[0] for entry in entries))
        try:
            worst, also = _worst(examiner, found_domain, candidates, pairs, seed)
            seen = examiner.examine(worst)
        except (MechanismFailed, Stopped) as error:
            late = isinstance(error, Stopped) and str(error) in ("", "time limit")
            return _failed(named, examiner, f"a run took longer than time_limit = {time_limit:g} s" if late else str(error), begin)
    named["claim"], said = resolved(claim, seen.pair)
    seen.notes += said
    result: AuditResult | None = None
    tried = [f for f in (*seen.findings, *seen.suspicions) if f.kind not in _UNCONFIRMED]
    if confirm and tried:
        more: Json = {"trials": budget, "confidence": confidence, "seed": seed, "executor": executor, "progress": progress}
        result = audit(mechanism, claim=claim, pair=[seen.pair, *also], stop="violation", bits=False, name=name, target=target, **more)
    return _told(seen, result, examiner, named, begin)


def _where(mechanism: Any, pair: Any, domain: Domain | None) -> tuple[Domain | None, list[Pair]]:
    """The domain to look in, or the pairs that were given."""
    if pair is not None and domain is not None:
        raise InvalidArgument("trace: pair and domain must not be given together")
    place = domain if pair is None else pair
    if place is None:
        place = getattr(mechanism, "domain", None)
        if place is None:
            raise InvalidArgument("trace: pair must be given, or a domain: the mechanism declares none")
    if isinstance(place, Domain):
        require_neighbours(place, "trace")
        return place, []
    given_pairs = [place] if isinstance(place, Pair) else place
    if not isinstance(given_pairs, list | tuple) or not given_pairs or not all(isinstance(p, Pair) for p in given_pairs):
        raise InvalidArgument(f"trace: pair must be a Pair, a list of them or a Domain, got {shown(pair)}")
    return None, list(given_pairs)


def _worst(examiner: Examiner, domain: Domain | None, candidates: list[Pair], most: int | None, seed: int) -> tuple[Pair, list[Pair]]:
    """The pair that looks worst, and others that look bad too: where an audit may confirm what this one shows."""
    if domain is not None and most is not None and most > len(pairs_for(domain)):
        found = explore(domain, lambda p, _: (examiner.glance(p), None), evaluations=most, seconds=3600.0, seed=seed, keep=_ALSO + 1)
        if found.candidates:
            return found.candidates[0].pair, [c.pair for c in found.candidates[1:] if c.value > 1]
    if domain is not None:
        candidates = pairs_for(domain)[: most or _PAIRS]
    if len(candidates) == 1:
        return candidates[0], []
    scores = [examiner.glance(p) for p in candidates]
    order = sorted(range(len(scores)), key=lambda k: -scores[k])
    return candidates[order[0]], [candidates[k] for k in order[1 : _ALSO + 1] if scores[k] > 1]


def _failed(named: Json, examiner: Examiner, told: str, begin: float) -> TraceResult:
    nothing: Json = {"pair": None, "findings": (), "calls": (), "loss": float("nan"), "charged": float("nan")}
    spent: Json = {"runs": examiner.runs, "seconds": time.perf_counter() - begin, "cpu_seconds": examiner.cpu}
    return TraceResult(verdict=Verdict.ERROR, notes=(told,), **nothing, **spent, **named)


def _told(seen: Seen, result: AuditResult | None, examiner: Examiner, named: Json, begin: float) -> TraceResult:
    confirmed = result is not None and result.verdict is Verdict.VIOLATED
    known = dict(getattr(named["mechanism"], "expected_findings", None) or {})
    found = [*seen.findings, *(seen.suspicions if confirmed else ())]
    findings: list[Finding] = [f for f in found if confirmed or f.kind not in known]
    notes = [*seen.notes, *(f"expected, {known[f.kind]}: {f}" for f in found if f not in findings)]
    if seen.suspicions and not confirmed:
        notes += [f"seen in a few runs, which may be chance, and not confirmed: {finding}" for finding in seen.suspicions]
    if result is not None and result.verdict is Verdict.ERROR:
        notes.append(f"the audit ended in {result.headline()}")
    if seen.pair.unchecked:
        notes.append(seen.pair.unchecked)
    verdict = Verdict.VIOLATED if confirmed else Verdict.INCONCLUSIVE if findings else Verdict.NOT_REFUTED
    return TraceResult(
        verdict=verdict,
        pair=seen.pair,
        findings=tuple(findings),
        calls=seen.calls.summary(),
        loss=seen.loss,
        charged=seen.charged,
        runs=examiner.runs,
        audit=result,
        notes=tuple(notes),
        seconds=time.perf_counter() - begin,
        cpu_seconds=examiner.cpu,
        **named,
    )
