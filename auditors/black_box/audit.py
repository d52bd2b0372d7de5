"""The black-box audit: what is asked, checked and set out; the stages run; one result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import nullcontext
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpwitness.auditors.black_box import ending
from dpwitness.auditors.black_box.concluding import kept
from dpwitness.auditors.black_box.course import Course, Progress, Request
from dpwitness.auditors.black_box.fitness import probe, require_same_mechanism
from dpwitness.auditors.black_box.stages import certify_event, extend, rehearse, search_and_test
from dpwitness.auditors.black_box.timing import LEAST, Price, price, require_enough, require_seconds, told_in_time
from dpwitness.auditors.black_box.wider import look_wider
from dpwitness.auditors.events.divergence import Binned
from dpwitness.auditors.events.learning import Learned
from dpwitness.auditors.events.reading import columns_of
from dpwitness.auditors.events.rules import Event
from dpwitness.auditors.events.scores import Score, scores_of
from dpwitness.auditors.pairs.catalogue import pairs_for, require_neighbours
from dpwitness.auditors.results.audit_result import AuditResult
from dpwitness.auditors.running.engine import Inline, Phase, collect
from dpwitness.auditors.running.scored import Scored, try_scores
from dpwitness.auditors.storing.identity import identity_of
from dpwitness.auditors.storing.ledger import AuditLedger
from dpwitness.auditors.storing.store import Store, open_store
from dpwitness.mechanisms.domains import Domain
from dpwitness.mechanisms.foreign.described import require_attributes
from dpwitness.mechanisms.foreign.target import Target
from dpwitness.mechanisms.objects.runs import PerRun
from dpwitness.mechanisms.terms.notions import Claim, TradeoffCurve, promised
from dpwitness.mechanisms.terms.pairs import Pair
from dpwitness.mechanisms.terms.protocol import FloatArray, name_of
from dpwitness.mechanisms.terms.reading import Json
from dpwitness.mechanisms.terms.validation import (
    InvalidArgument,
    require_callable,
    require_integer,
    require_numbers,
    require_one_of,
    require_positive,
    require_probability,
    require_runner,
    require_type,
    shown,
)

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
    """Look for a violation of a privacy claim by running the mechanism, and certify what is found.

    Parameters
    ----------
    mechanism : Mechanism or callable
        Has ``sample(dataset, size, rng)`` or is such a function. Returns `size` independent outputs: an array of shape (size,) or
        (size, k), or a list of outputs of any kind. Exceptions are outputs too: where a batch raises, runs are made one at a time.
        Randomness comes from `rng`; the generators of the process (`np.random`, `random`) are seeded from it for what draws from
        them. A mechanism whose library takes no seed says so by an attribute ``seeded = False``; others that give other outputs under one
        seed end in ERROR, as those do that keep state.
    claim : Claim or str, optional
        The promise; ``mechanism.claim`` if left out.
    pair : Pair or list of Pair, optional
        Where to look. Of several, a pilot with 20 % of the budget picks the one to test.
    domain : Domain, optional
        Pairs are taken from the catalogue for this domain; ``mechanism.domain`` if neither pair nor domain is given.
    trials : int
        Runs of the mechanism in all: both datasets, pilot, training and test. At least 1,000; 1,000,000 if left out.
    seconds : float, optional
        Instead of `trials`, about how long the audit may take. Runs are timed, and `trials` is fixed by that before the audit begins. A
        note tells it: the same seed gives the same counts with the same `trials`, not with the same `seconds`.
    confidence : float
        Of the value-level verdict and, apart from it, of the bit-level verdict. The chance of a false VIOLATED is at most 1 - confidence.
    seed : int
        Root of all randomness: the same seed gives the same counts on any executor.
    executor : concurrent.futures.Executor, optional
        Threads for kernels that release the GIL, processes for Python code (the mechanism must then be importable). What draws from the
        generators of the process runs in one thread at a time.
    stop : {"gross", "violation", "never"}
        When to stop before the budget is spent: once a violation far beyond the claim is certified (the default), once any is, or
        never.
    bits : bool
        Whether to look at the low bits of floating-point outputs as well.
    near : array, optional
        An output around which balls are tried as events too, such as that of `worst_output`.
    scores : list of callables or of pairs (name, callable), optional
        Functions of the outputs, as `sample` returns them, that may tell the datasets apart: each gives a number for every output, an array
        (n,), or several, (n, k) or a dict of arrays (n,). Events may use them beside the outputs' own numbers, as they may use what a
        mechanism suggests by a method ``features(outputs)``. A score must be a function of each output alone; one that raises, gives NaN
        or the wrong length when it is tried is left out, and a note names it.
    time_limit : float
        Seconds that one chunk of rounds may take before the mechanism counts as hung, or ten times what the rounds before it took if that
        is more.
    progress : callable, optional
        Called with (runs done, runs planned). If it has a method ``looked(symbol, bound)``, that is told what each look certified.
    announce : callable, optional
        Called before the audit begins, with a line that says how many runs and how much time are expected, and with a store what of it
        is done.
    target : dict, optional
        How to find the mechanism again, for the witness; found out by itself for importable mechanisms.
    store : path or open Store, optional
        A file where what is planned and counted is written down (SQLite; it may hold other audits too). The same audit, stopped at any
        moment, goes on from there and ends with the counts of one that was not. One process at a time may write to it. The first rounds are
        run again before anything stored is believed, of a finished audit too.
    extend_to : int, optional
        Runs in all, more than were planned, for an audit of the store that has come to its end: its event is tested on a stage of fresh
        rounds. The k-th extension spends 2^-k of alpha besides, whatever made the user ask for it and however long it is. The result's
        confidence is that of all its statements together.
    window : int, optional
        Tasks in flight on the executor; twice its workers and one more if left out.

    Returns
    -------
    AuditResult

    Raises
    ------
    InvalidArgument
        If an argument breaks its rule. What the mechanism does wrong ends in the verdict ERROR instead.

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
    asked = _request(mechanism, claim, trials, confidence, seed, executor, name, time_limit, progress, target, stop, bits)
    state = _begin(asked, None if near is None else require_numbers("near", near, "audit").ravel())
    pairs = pairs_of(mechanism, pair, domain)
    state.note(*_cautions(pairs))
    for each in pairs:
        claim.on(each)  # raises where it says nothing of the pair
    every = scores_of(scores, mechanism, "audit")

    longer = None if extend_to is None else require_integer("extend_to", extend_to, "audit", least=1000, most=10**12)
    if longer is not None and store is None:
        raise InvalidArgument(f"audit: extend_to needs the store of the audit that is extended, got extend_to={longer} without one")
    state.pace.window = None if window is None else require_integer("window", window, "audit", least=1)

    def work() -> None:
        ends = {} if state.ledger is None else state.ledger.values("end ")
        begun = max((number for number in range(len(totals) + 1) if f"end {number}" in ends), default=None)
        _score(state, pairs[0], every)
        if begun is not None:
            ending.restore(state, pairs, ends[f"end {begun}"])
            require_same_mechanism(state, pairs)
            if state.tested:
                state.hold_to(state.tested[-1].pair)
            ending.require_counts_agree(state)
        else:
            if seconds is not None or announce is not None:
                _plan(state, pairs, None if seconds is None else float(seconds), announce)
            search_and_test(state, pairs)
            if pair is None:
                look_wider(state, mechanism.domain if domain is None else domain)
            ending.end(state, pairs, 0)
        for number in range((begun or 0) + 1, len(totals) + 1):
            if state.tested[-1].stopped:
                state.note("not extended: the violation was certified before the rounds were over")
                break
            extend(state, number, totals[number - 1])
            ending.end(state, pairs, number)

    totals: list[int] = []
    require_type("store", store, (str, PathLike, Store), "be the path of a file, or an open Store", "audit", optional=True)
    if store is None:
        return kept(state, work, executor is None)
    with nullcontext(store) if isinstance(store, Store) else open_store(store) as opened:
        told = claim.spelled if isinstance(claim, TradeoffCurve) else str(claim)  # the name of a file is not what it holds
        content = {"name": asked.name, "claim": told, "seed": seed, "confidence": confidence, "stop": stop, "bits": bool(bits)}
        budget = {"trials": trials if seconds is None else None, "seconds": seconds}
        identity = identity_of(mechanism, asked.target, pairs, every, state.near, **content, **budget)
        state.ledger = AuditLedger(opened, identity, asked.name, trials)
        if longer is not None:
            totals = ending.totals(state.ledger, longer)
        if announce is not None:
            announce(state.ledger.told())
        return kept(state, work, executor is None)


def timed(mechanism: Any, *, claim: Claim, pair: Pair, executor: Executor | None = None, seed: int = 0, name: str | None = None) -> Price:
    """What a run on this pair costs: what an audit that is given a time finds out first.

    Raises
    ------
    MechanismFailed
        If it crashes or hangs.
    """
    asked = _request(mechanism, claim, LEAST, 0.99, seed, executor, name, 300.0, None, None)
    try:
        return _priced(_begin(asked), pair, None)
    finally:
        if executor is None:
            asked.executor.shutdown(wait=False)


def rehearsal(
    mechanism: Any, *, claim: Claim, pairs: Sequence[Pair], trials: int, confidence: float, seed: int, executor: Executor | None = None
) -> list[tuple[Pair, Event, float]]:
    """Return the pair, event and rounds of each stage of the test that an audit with this plan would make: see `stages.rehearse`."""
    asked = _request(mechanism, claim, trials, confidence, seed, executor, None, 300.0, None, None, bits=True)
    try:
        return rehearse(_begin(asked), list(pairs))
    finally:
        if executor is None:
            asked.executor.shutdown(wait=False)


def _priced(state: Course, pair: Pair, seconds: float | None) -> Price:
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
    """Test one given event, fixed beforehand, on one pair: all rounds certify. Arguments as in `audit`; `scores` with their columns."""
    state = _begin(_request(mechanism, claim, trials, confidence, seed, executor, name, time_limit, progress, target))
    state.hold_to(pair)
    _use(state, scores)
    state.note(*_cautions([pair]))

    def test() -> None:
        width, _ = probe(state, pair, 0)
        rule = event if isinstance(event, Binned) else None
        plain = rule.events[len(rule.events) // 2] if rule else event
        wide = max(width, columns_of(event))
        certify_event(state, pair, 0, Learned(plain, 0.0, "given", rule), trials - state.done, state.asked.alpha, wide)

    return kept(state, test, executor is None)


def _score(state: Course, pair: Pair, scores: Sequence[Score]) -> None:
    """Try the scores, and let the mechanism run with those that are fit."""
    if not scores:
        return
    stage = state.stage(pair, Phase.SCORES, 0, 1, 1)
    kept, notes, runs = collect(state.asked.executor.submit(try_scores, stage, scores), stage)
    state.advance(runs)
    state.note(*notes)
    given = {score.name: score for score in scores}
    fit = state.settled("scores", lambda: [[score.name, list(score.keys)] for score in kept])
    kept = tuple(replace(given[name], keys=tuple(keys)) for name, keys in fit)
    if state.near is not None:
        state.near = None
        state.note("balls around a given output are not tried beside scores")
    _use(state, kept)


def _use(state: Course, scores: tuple[Score, ...]) -> None:
    if scores:
        state.run, state.scores = Scored(state.run, scores), scores


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
) -> Request:
    """Check what is asked."""
    from dpwitness.auditors.targets.naming import describe_target

    if not callable(getattr(mechanism, "sample", mechanism)) or isinstance(mechanism, type):
        raise InvalidArgument(f"mechanism must be callable or have a method sample(dataset, size, rng), got {shown(mechanism)}")
    require_attributes(mechanism)
    trials = require_integer("trials", trials, "audit", least=1000, most=10**12)
    require_probability("confidence", confidence, "audit")
    seed = require_integer("seed", seed, "audit", least=0)
    if require_positive("time_limit", time_limit, "audit") > 1e9:
        raise InvalidArgument(f"audit: time_limit must be at most 1e9 seconds, got {time_limit!r}")
    require_runner(executor, progress, name, "audit")
    require_type("target", target, dict, "be a dict", "audit", optional=True)
    name, target, limit = name or name_of(mechanism), target or describe_target(mechanism), float(time_limit)
    return Request(name, claim, mechanism, trials, confidence, seed, executor or Inline(), limit, progress, target, stop, bits)


def _begin(asked: Request, near: FloatArray | None = None) -> Course:
    state = Course(asked, getattr(asked.mechanism, "sample", asked.mechanism), asked.trials, near)
    if isinstance(asked.mechanism, Target | PerRun):
        state.batch, state.notes = getattr(asked.mechanism, "batch", None), list(asked.mechanism.notes)
    return state


def _cautions(pairs: Sequence[Pair]) -> list[str]:
    """What must be told of pairs that were not compared."""
    return list(dict.fromkeys(pair.unchecked for pair in pairs if pair.unchecked))


def pairs_of(mechanism: Any, pair: Pair | Sequence[Pair] | None, domain: Domain | None = None) -> list[Pair]:
    """The pairs that an audit looks at: those given, or those of the domain."""
    domain = getattr(mechanism, "domain", None) if domain is None else domain
    if pair is not None:
        found = [pair] if isinstance(pair, Pair) else pair
        if not isinstance(found, list | tuple) or not found or not all(isinstance(p, Pair) for p in found):
            raise InvalidArgument(f"pair must be a Pair or a non-empty list of Pairs, got {shown(pair)}")
        for side, dataset in ((side, getattr(p, side)) for p in found for side in ("d0", "d1")):
            if isinstance(domain, Domain) and (wrong := domain.other_columns(dataset)):
                raise InvalidArgument(f"pair: {side.upper()} is none of the domain: {wrong}")
        return list(found)
    if domain is None:
        raise InvalidArgument("pair must be given, or a domain to take pairs from, got neither")
    require_neighbours(domain, "audit")
    return pairs_for(domain)


def _plan(state: Course, pairs: Sequence[Pair], seconds: float | None, announce: Callable[[str], None] | None) -> None:
    """Fix the number of runs, once and before the audit begins, and say what is expected.

    Raises
    ------
    InvalidArgument
        If the time does not allow for the least audit.
    """
    found = _priced(state, pairs[0], seconds)
    trials = state.planned
    if seconds is not None:
        trials = state.settled("trials", lambda: found.trials(seconds, len(pairs)))
        require_enough(found, trials, len(pairs), seconds, "audit")
        state.planned = trials
        state.note(
            f"{seconds:g} s were asked for: {trials:,} runs at {told_in_time(found.run)} each, as {found.runs:,} runs before them took; "
            f"a time is not reproducible, the same counts come again with trials={trials}"
        )
    if announce is not None:
        left = trials if state.ledger is None else max(0, trials - state.ledger.entry.done)
        expected = told_in_time(found.time(left, len(pairs)))
        announce(f"{state.asked.name}: {left:,} runs at {told_in_time(found.run)} each, about {expected} expected")
