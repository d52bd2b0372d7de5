"""Entry point of the black-box audit: validate the request, run the stages, build the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import nullcontext
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpwitness.auditors.black_box import result_record
from dpwitness.auditors.black_box.finalize import kept
from dpwitness.auditors.black_box.preflight import probe, require_same_mechanism
from dpwitness.auditors.black_box.stages import certify_event, extend, planned_stages, search_and_test
from dpwitness.auditors.black_box.state import AuditRequest, AuditState, Progress
from dpwitness.auditors.black_box.timing import LEAST, RunCost, format_duration, price, require_enough_trials, require_seconds
from dpwitness.auditors.black_box.wider_bounds import suggest_wider_domain
from dpwitness.auditors.events.divergence import Binned
from dpwitness.auditors.events.learning import Learned
from dpwitness.auditors.events.rule_reader import columns_of
from dpwitness.auditors.events.rules import Event
from dpwitness.auditors.events.scores import Score, collect_scores
from dpwitness.auditors.pairs.catalogue import pairs_for, require_domain
from dpwitness.auditors.results.audit_result import AuditResult
from dpwitness.auditors.running.engine import Inline, Phase, collect
from dpwitness.auditors.running.scored_outputs import ScoredMechanism, usable_scores_of
from dpwitness.auditors.storing.audit_identity import identity_of
from dpwitness.auditors.storing.audit_records import AuditLedger
from dpwitness.auditors.storing.store import Store, open_store
from dpwitness.mechanisms.core.json_reader import Json
from dpwitness.mechanisms.core.validation import (
    InvalidArgument,
    require_callable,
    require_integer,
    require_numbers,
    require_one_of,
    require_positive,
    require_probability,
    require_run_options,
    require_type,
    shown,
)
from dpwitness.mechanisms.data.pairs import Pair
from dpwitness.mechanisms.domains import Domain
from dpwitness.mechanisms.foreign.manifest import require_attributes
from dpwitness.mechanisms.foreign.target import Target
from dpwitness.mechanisms.objects.single_runs import PerRun
from dpwitness.mechanisms.privacy import Claim, promised
from dpwitness.mechanisms.protocols.mechanism import FloatArray, name_of

__all__ = ["TRIALS", "Progress", "audit", "confirm"]

TRIALS = 1_000_000


def audit(
    mechanism: Any,
    *,
    claim: Claim | str | None = None,
    pair: Pair | Sequence[Pair] | None = None,
    domain: Domain | None = None,
    trials: int | None = None,
    seconds: float | None = None,
    confidence: float = 0.99,
    seed: int = 0,
    executor: Executor | None = None,
    name: str | None = None,
    stop: str = "gross",
    bits: bool = True,
    near: ArrayLike | None = None,
    scores: Sequence[Any] | None = None,
    time_limit: float = 300.0,
    progress: Progress | None = None,
    announce: Callable[[str], None] | None = None,
    target: Json | None = None,
    store: str | PathLike[str] | Store | None = None,
    extend_to: int | None = None,
    window: int | None = None,
) -> AuditResult:
    """Search for a violation of a privacy claim by running the mechanism, and certify what is found.

    Parameters
    ----------
    mechanism : Mechanism or callable
        An object with ``sample(dataset, size, rng)``, or such a function. It returns `size`
        independent outputs: an array of shape (size,) or (size, k), or a list of outputs of any
        kind. Exceptions are outputs too: if a batch raises, rounds run one at a time. Randomness
        must come from `rng`. The process's generators (`np.random`, `random`) are seeded from `rng`
        for mechanisms that use them. If the mechanism's library cannot be seeded, set its attribute
        ``seeded = False``. Other mechanisms that give different outputs under one seed, or keep
        state, get the verdict ERROR.
    claim : Claim or str, optional
        The claim to test; ``mechanism.claim`` by default.
    pair : Pair or list of Pair, optional
        Neighboring datasets to compare. If several are given, a pilot with 20 % of the budget
        selects the pair to test.
    domain : Domain, optional
        Pairs are taken from the catalogue for this domain; ``mechanism.domain`` if neither pair nor
        domain is given.
    trials : int
        Total number of runs of the mechanism: both datasets, pilot, training and test. At least
        1,000; 1,000,000 by default.
    seconds : float, optional
        Approximate duration of the audit, instead of `trials`. Runs are timed to fix `trials`
        before the audit begins, and a note reports the number. The same seed gives the same counts
        with the same `trials`, not with the same `seconds`.
    confidence : float
        Confidence of the value-level verdict and, separately, of the bit-level verdict. The
        probability of a false VIOLATED is at most 1 - confidence.
    seed : int
        Root of all randomness: the same seed gives the same counts on any executor.
    executor : concurrent.futures.Executor, optional
        Use threads for kernels that release the GIL, and processes for Python code (the mechanism
        must then be importable). Mechanisms that use the process's generators run in one thread at
        a time.
    name : str, optional
        Name of the audit in the result and in the random streams; the mechanism's name by default.
    stop : {"gross", "violation", "never"}
        When to stop before the budget is spent: when a violation far beyond the claim is certified
        (the default), when any violation is certified, or never.
    bits : bool
        Whether to audit the low bits of floating-point outputs as well.
    near : array, optional
        An output, for example from `worst_output`. Balls around it are tried as events too.
    scores : list of callables or of pairs (name, callable), optional
        Functions of the outputs, as `sample` returns them, that may distinguish the datasets. Each
        returns a number for every output, an array (n,), or several numbers, (n, k) or a dict of
        arrays (n,). Events may use the scores in addition to the outputs' own numbers, and also the
        scores that a mechanism suggests with a method ``features(outputs)``. A score must be a
        function of each output alone. A score that raises, or returns NaN or the wrong length in a
        test before the audit, is left out, and a note names it.
    time_limit : float
        Time limit of one chunk of rounds, in seconds, after which the mechanism counts as hung. The
        limit is ten times the expected duration if that is longer.
    progress : callable, optional
        Called with (runs done, runs planned). If it has a method ``looked(symbol, bound)``, this
        method is called with the bound certified at each interim look.
    announce : callable, optional
        Called before the audit begins with a line on the expected number of runs and duration. With
        a store, it is also called with a line on the stored part of the audit.
    target : dict, optional
        Import location of the mechanism for the witness; determined automatically for importable
        mechanisms.
    store : path or open Store, optional
        SQLite file that stores the plan and the counts; it may contain other audits. If the same
        audit is stopped at any moment, it resumes from the file and ends with the counts of an
        uninterrupted audit. Only one process at a time may write to the file. The first rounds are
        run again to verify the stored data, also for a finished audit.
    extend_to : int, optional
        New total number of runs, larger than planned, for a finished audit in the store. Its event
        is tested on a stage of fresh rounds. The k-th extension spends an additional 2^-k of alpha,
        whatever its reason and length. The confidence of the result is that of all its statements
        together.
    window : int, optional
        Maximum number of tasks in flight on the executor; 2 * workers + 1 by default.

    Returns
    -------
    AuditResult
        Verdict, certified bounds and counts.

    Raises
    ------
    InvalidArgument
        If an argument is invalid. Faults of the mechanism give the verdict ERROR instead.

    Examples
    --------
    >>> import numpy as np
    >>> def leaky(dataset, size, rng):
    ...     return dataset[0] + rng.laplace(0.0, 0.5, size)
    >>> result = audit(leaky, claim="pure:1", pair=Pair(np.array([0.0]), np.array([1.0])), trials=100_000, seed=1)
    >>> result.verdict
    <Verdict.VIOLATED: 'VIOLATED'>
    """
    claim = promised(mechanism, claim, "audit")
    require_one_of("stop", stop, ["gross", "violation", "never"], "audit")
    require_type("bits", bits, (bool, np.bool_), "be True or False", "audit")
    require_seconds(seconds, trials, "audit")
    require_callable("announce", announce, "audit", arguments=1, optional=True)
    trials = TRIALS if trials is None else trials
    request = _request(mechanism, claim, trials, confidence, seed, executor, name, time_limit, progress, target, stop, bits)
    state = _initial_state(request, None if near is None else require_numbers("near", near, "audit").ravel())
    pairs = audited_pairs(mechanism, pair, domain)
    state.note(*_unverified_notes(pairs))
    for candidate in pairs:
        claim.on(candidate)  # raises if the claim does not cover the pair
    all_scores = collect_scores(scores, mechanism, "audit")

    extended_total = None if extend_to is None else require_integer("extend_to", extend_to, "audit", least=1000, most=10**12)
    if extended_total is not None and store is None:
        raise InvalidArgument(f"audit: extend_to needs the store of the audit that is extended, got extend_to={extended_total} without one")
    state.pace.window = None if window is None else require_integer("window", window, "audit", least=1)

    def run_all() -> None:
        """Run the audit, or resume it from the store, then run all requested extensions."""
        stored_ends = {} if state.ledger is None else state.ledger.values("end ")
        last_end = max((number for number in range(len(totals) + 1) if f"end {number}" in stored_ends), default=None)
        _add_scores(state, pairs[0], all_scores)
        if last_end is not None:
            result_record.restore(state, pairs, stored_ends[f"end {last_end}"])
            require_same_mechanism(state, pairs)
            if state.tested:
                state.use_claim_on(state.tested[-1].pair)
            result_record.require_counts_agree(state)
        else:
            if seconds is not None or announce is not None:
                _fix_budget(state, pairs, None if seconds is None else float(seconds), announce)
            search_and_test(state, pairs)
            if pair is None:
                suggest_wider_domain(state, mechanism.domain if domain is None else domain)
            result_record.end(state, pairs, 0)
        for number in range((last_end or 0) + 1, len(totals) + 1):
            if state.tested[-1].stopped:
                state.note("not extended: the violation was certified before the rounds were over")
                break
            extend(state, number, totals[number - 1])
            result_record.end(state, pairs, number)

    totals: list[int] = []
    require_type("store", store, (str, PathLike, Store), "be the path of a file, or an open Store", "audit", optional=True)
    if store is None:
        return kept(state, run_all, executor is None)
    with nullcontext(store) if isinstance(store, Store) else open_store(store) as opened:
        content = {"name": request.name, "claim": claim.identity, "seed": seed, "confidence": confidence, "stop": stop, "bits": bool(bits)}
        budget = {"trials": trials if seconds is None else None, "seconds": seconds}
        identity = identity_of(mechanism, request.target, pairs, all_scores, state.near, **content, **budget)
        state.ledger = AuditLedger(opened, identity, request.name, trials)
        if extended_total is not None:
            totals = result_record.totals(state.ledger, extended_total)
        if announce is not None:
            announce(state.ledger.told())
        return kept(state, run_all, executor is None)


def timed(mechanism: Any, *, claim: Claim, pair: Pair, executor: Executor | None = None, seed: int = 0, name: str | None = None) -> RunCost:
    """Measure the cost of runs on this pair; an audit with a time budget does the same first.

    Raises
    ------
    MechanismFailed
        If the mechanism crashes or hangs.
    """
    request = _request(mechanism, claim, LEAST, 0.99, seed, executor, name, 300.0, None, None)
    try:
        return _measure_price(_initial_state(request), pair, None)
    finally:
        if executor is None:
            request.executor.shutdown(wait=False)


def rehearsal(
    mechanism: Any, *, claim: Claim, pairs: Sequence[Pair], trials: int, confidence: float, seed: int, executor: Executor | None = None
) -> list[tuple[Pair, Event, float]]:
    """Return the planned test stages of an audit: pair, event and number of rounds of each (see `stages.planned_stages`)."""
    request = _request(mechanism, claim, trials, confidence, seed, executor, None, 300.0, None, None, bits=True)
    try:
        return planned_stages(_initial_state(request), list(pairs))
    finally:
        if executor is None:
            request.executor.shutdown(wait=False)


def _measure_price(state: AuditState, pair: Pair, seconds: float | None) -> RunCost:
    """Measure the cost of runs on this pair for a prepared audit."""
    return price(lambda size: state.stage(pair, Phase.TIMING, 0, size, size), state.asked.claim, state.asked.executor, seconds)


def confirm(
    mechanism: Any,
    event: Event,
    *,
    claim: Claim,
    pair: Pair,
    trials: int,
    confidence: float,
    seed: int,
    name: str | None = None,
    executor: Executor | None = None,
    time_limit: float = 300.0,
    progress: Progress | None = None,
    target: Json | None = None,
    scores: tuple[Score, ...] = (),
) -> AuditResult:
    """Test one fixed event on one pair. All rounds count for the certificate, because nothing is searched.

    The arguments are those of `audit`; `scores` must list their columns.
    """
    state = _initial_state(_request(mechanism, claim, trials, confidence, seed, executor, name, time_limit, progress, target))
    state.use_claim_on(pair)
    _wrap_with_scores(state, scores)
    state.note(*_unverified_notes([pair]))

    def run_test() -> None:
        """Run the fixed event's test."""
        width, _ = probe(state, pair, 0)
        binned_rule = event if isinstance(event, Binned) else None
        single_event = binned_rule.events[len(binned_rule.events) // 2] if binned_rule else event
        columns = max(width, columns_of(event))
        certify_event(state, pair, 0, Learned(single_event, 0.0, "given", binned_rule), trials - state.done, state.asked.alpha, columns)

    return kept(state, run_test, executor is None)


def _add_scores(state: AuditState, pair: Pair, scores: Sequence[Score]) -> None:
    """Test the scores, and add the usable ones to the mechanism's outputs."""
    if not scores:
        return
    stage = state.stage(pair, Phase.SCORES, 0, 1, 1)
    usable, notes, runs = collect(state.asked.executor.submit(usable_scores_of, stage, scores), stage)
    state.advance(runs)
    state.note(*notes)
    scores_by_name = {score.name: score for score in scores}
    usable_keys = state.settled("scores", lambda: [[score.name, list(score.keys)] for score in usable])
    usable = tuple(replace(scores_by_name[name], keys=tuple(keys)) for name, keys in usable_keys)
    if state.near is not None:
        state.near = None
        state.note("balls around a given output are not tried together with scores")
    _wrap_with_scores(state, usable)


def _wrap_with_scores(state: AuditState, scores: tuple[Score, ...]) -> None:
    """Make the mechanism return these scores with its outputs."""
    if scores:
        state.run, state.scores = ScoredMechanism(state.run, scores), scores


def _request(
    mechanism: Any,
    claim: Claim,
    trials: int,
    confidence: float,
    seed: int,
    executor: Executor | None,
    name: str | None,
    time_limit: float,
    progress: Progress | None,
    target: Json | None,
    stop: str = "never",
    bits: bool = False,
) -> AuditRequest:
    """Validate the arguments and return the request."""
    from dpwitness.auditors.targets.loading import describe_target

    if not callable(getattr(mechanism, "sample", mechanism)) or isinstance(mechanism, type):
        raise InvalidArgument(f"mechanism must be callable or have a method sample(dataset, size, rng), got {shown(mechanism)}")
    require_attributes(mechanism)
    trials = require_integer("trials", trials, "audit", least=1000, most=10**12)
    require_probability("confidence", confidence, "audit")
    seed = require_integer("seed", seed, "audit", least=0)
    if require_positive("time_limit", time_limit, "audit") > 1e9:
        raise InvalidArgument(f"audit: time_limit must be at most 1e9 seconds, got {time_limit!r}")
    require_run_options(executor, progress, name, "audit")
    require_type("target", target, dict, "be a dict", "audit", optional=True)
    name, target, limit = name or name_of(mechanism), target or describe_target(mechanism), float(time_limit)
    return AuditRequest(name, claim, mechanism, trials, confidence, seed, executor or Inline(), limit, progress, target, stop, bits)


def _initial_state(request: AuditRequest, near: FloatArray | None = None) -> AuditState:
    """Return the initial state of an audit."""
    state = AuditState(request, getattr(request.mechanism, "sample", request.mechanism), request.trials, near)
    if isinstance(request.mechanism, Target | PerRun):
        state.batch, state.notes = getattr(request.mechanism, "batch", None), list(request.mechanism.notes)
    return state


def _unverified_notes(pairs: Sequence[Pair]) -> list[str]:
    """Return a note for each pair of datasets that were not verified to be neighbors."""
    return list(dict.fromkeys(pair.unchecked for pair in pairs if pair.unchecked))


def audited_pairs(mechanism: Any, pair: Pair | Sequence[Pair] | None, domain: Domain | None = None) -> list[Pair]:
    """Return the pairs to audit: the given pairs, or those of the domain.

    Raises
    ------
    InvalidArgument
        If `pair` is invalid or outside the domain, or neither a pair nor a domain is given.
    """
    domain = getattr(mechanism, "domain", None) if domain is None else domain
    if pair is not None:
        candidates = [pair] if isinstance(pair, Pair) else pair
        if not isinstance(candidates, list | tuple) or not candidates or not all(isinstance(p, Pair) for p in candidates):
            raise InvalidArgument(f"pair must be a Pair or a non-empty list of Pairs, got {shown(pair)}")
        for side, dataset in ((side, getattr(p, side)) for p in candidates for side in ("d0", "d1")):
            if isinstance(domain, Domain) and (wrong := domain.other_columns(dataset)):
                raise InvalidArgument(f"pair: {side.upper()} is not in the domain: {wrong}")
        return list(candidates)
    if domain is None:
        raise InvalidArgument("pair must be given, or a domain to take pairs from, got neither")
    require_domain(domain, "audit")
    return pairs_for(domain)


def _fix_budget(state: AuditState, pairs: Sequence[Pair], seconds: float | None, announce: Callable[[str], None] | None) -> None:
    """Fix the number of runs before the audit begins, and announce the expected cost.

    Raises
    ------
    InvalidArgument
        If the time is too short for the smallest audit.
    """
    cost = _measure_price(state, pairs[0], seconds)
    trials = state.planned
    if seconds is not None:
        trials = state.settled("trials", lambda: cost.trials(seconds, len(pairs)))
        require_enough_trials(cost, trials, len(pairs), seconds, "audit")
        state.planned = trials
        state.note(
            f"time budget {seconds:g} s: {trials:,} runs at {format_duration(cost.run)} each, as measured on {cost.runs:,} other runs; "
            f"a time budget is not reproducible, but trials={trials} gives the same counts"
        )
    if announce is not None:
        remaining_runs = trials if state.ledger is None else max(0, trials - state.ledger.entry.done)
        expected = format_duration(cost.time(remaining_runs, len(pairs)))
        announce(f"{state.asked.name}: {remaining_runs:,} runs at {format_duration(cost.run)} each, about {expected} expected")
