"""One call of ``dpwitness watch``: a slice for each target, and the discoveries over all targets at
a false discovery rate.

**Theorem.** The discoveries of e-BH at (1 - 1/50) alpha, from the evidence E(claim) of each of K
targets with frequency limits at error gamma = alpha / (50 K), have a false discovery rate of at
most alpha at any time at which the store is read.

*Proof.* Let G_i be the event that the frequency limits of target i hold at all times: P(not G_i) <=
gamma. If claim i holds, E_i 1[G_i] is bounded by a supermartingale that starts at 1 (`anytime`,
Theorem 2), so its mean at a stopping time is at most 1. e-BH on E_i 1[G_i] has a false discovery
rate of at most (1 - 1/50) alpha (Wang and Ramdas 2022), and its discoveries are the same unless
some G_i fails, which has probability K gamma = alpha/50 at most. []

A discovery gets no further slices, so that its evidence stays. A new release is a new hypothesis:
the rate holds for the list of targets at one release each, not for all releases of a year together.

A **release** is one version of a target: its source, its claim and pairs, and its outputs under one
seed. Its evidence is that of a sequential audit (`statistics/anytime`). Each call adds a **slice**,
whose rounds have fresh random streams. A slice holds the counts that it adds to each epoch. An
epoch holds its event and its prior, which rounds of earlier slices, or earlier rounds of its own
slice, chose.

The sum of slices depends neither on the clock nor on the order in which stores are merged: slices
are ordered by number and id, a slice that occurs twice is the same row, and slices of two machines
that continue one state add up. Two such slices may both begin an epoch. Each epoch depends on
rounds before its own slice only, so that the proof of Theorem 2 holds for the ordered list.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain
from typing import Any

from dpwitness.auditors.audit.after_test import Counted, require_independent
from dpwitness.auditors.audit.conclude import Ending, Findings, build_result
from dpwitness.auditors.audit.options import (
    MIN_RUNS_PER_PAIR,
    MOST_TRIALS,
    AuditOptions,
    validated_options,
)
from dpwitness.auditors.audit.pair_choice import run_probes, select_pair
from dpwitness.auditors.audit.probe import BothSides, ProbedPair
from dpwitness.auditors.audit.result import AuditResult
from dpwitness.auditors.audit.sampler import Sampler
from dpwitness.auditors.audit.test import EventTest, SequentialTest
from dpwitness.auditors.events.rule_reader import read_event
from dpwitness.auditors.search.catalogue import audited_pairs
from dpwitness.auditors.statistics.anytime import (
    anytime_bound,
    e_discoveries,
    is_refuted,
    log_dependence,
    log_e_value,
)
from dpwitness.auditors.statistics.certificate import SHARE_FOR_FREQUENCY, Part, Prior, Tally
from dpwitness.auditors.witnesses.audit_records import identity_of
from dpwitness.auditors.witnesses.counts import read_part
from dpwitness.auditors.witnesses.store import Identity, Store, StoredAudit, insert_statement
from dpwitness.auditors.witnesses.verdicts import Verdict, fresh_seed
from dpwitness.auditors.workers.fitness import Unfit
from dpwitness.core.claims import Claim, promised
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.protocols import MechanismFailed
from dpwitness.core.values.json_reader import (
    Json,
    anything,
    integer,
    listing,
    number,
    parse,
    record,
    short_json,
    text,
)
from dpwitness.core.values.validation import InvalidArgument

# keys of facts, or their prefixes
SLICE, EPOCH, BEGUN, FOUND = "slice ", "epoch ", "begun ", "found"

_SLICE = record(
    time=number(),
    runs=integer(0, 10**18),
    counts=listing(anything),
    bound=number(lambda x: x >= 0, "a number, at least 0"),
)
_PLAN = record(
    event=anything,
    method=text(),
    directions=integer(1, 2),
    prior=listing(number(), 3, 3),
    pair=integer(0, 10**6),
    trained=integer(),
)


EpochCounts = tuple[str, int, int, int, int]  # epoch, right and wrong guesses, rounds, lost rounds


@dataclass(frozen=True, slots=True)
class Slice:
    """Counts that one call of ``watch`` adds to the epochs of a release; `bound` is the certified
    bound after the call. An epoch is a block of rounds in which one event is counted.
    """

    number: int
    id: str
    time: float
    runs: int
    counts: tuple[EpochCounts, ...]
    bound: float

    def to_json(self) -> Json:
        """Return the slice as JSON."""
        return {
            "time": round(self.time, 1),
            "runs": self.runs,
            "counts": [list(each) for each in self.counts],
            "bound": self.bound,
        }

    @classmethod
    def from_json(cls, key: str, data: Json) -> Slice:
        """Return the slice that `to_json` wrote under a key. Raise InvalidArgument if key or counts
        are inconsistent.
        """
        found = re.fullmatch(f"{SLICE}([0-9]{{1,18}}) ([0-9a-f]+)", key)
        if found is None:
            raise InvalidArgument(
                f"key must be {SLICE!r}, a number and an id, got {short_json(key)}"
            )
        slice_data = _SLICE(data, "")
        counts = [
            (text()(row[0], "epoch"), *listing(integer(), 4, 4)(row[1:], "counts"))
            for row in listing(listing(anything, 5, 5))(data["counts"], "counts")
        ]
        if sum(rounds for _, _, _, rounds, _ in counts) > slice_data["runs"]:
            raise InvalidArgument(
                f"runs must be at least the number of counted rounds, got {slice_data['runs']}"
            )
        return cls(
            int(found[1]),
            found[2],
            slice_data["time"],
            slice_data["runs"],
            tuple(counts),
            slice_data["bound"],
        )


@dataclass(frozen=True, slots=True)
class Release:
    """Sum of all slices of a release: its epochs in order, with the counts of each.

    A release is one version of a target. A slice is the share of one call of ``watch``, and an
    epoch is a block of rounds in which one event is counted.
    """

    slices: tuple[Slice, ...] = ()
    # event, method, prior, pair and training size of each epoch
    epochs: dict[str, Json] = field(default_factory=dict)
    parts: dict[str, Part] = field(default_factory=dict)
    unfinished: int = 0  # calls that ended without a slice
    found: bool = False  # whether the release was a discovery, so that no further slices are run

    @property
    def looks(self) -> tuple[tuple[int, float], ...]:
        """Return the number of runs and the certified bound after each slice."""
        runs = accumulate(each.runs for each in self.slices)
        return tuple(zip(runs, (each.bound for each in self.slices), strict=True))


def epoch_id(slice_id: str, number: int, plan: Json) -> str:
    """Return the name of an epoch that a slice begins."""
    content = json.dumps([slice_id, number, plan], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:12]


def read_release(store: Store, entry: StoredAudit) -> Release:
    """Return the runs and the counts that a store holds of an audit of one release, which several
    calls of `watch` added. Raise InvalidArgument if they cannot be read."""
    rows = store.rows("facts", "audit = ?", entry.id)
    try:
        facts = {key: parse(value) for _, key, value in rows}
        slices = [
            Slice.from_json(key, value) for key, value in facts.items() if key.startswith(SLICE)
        ]
        slices.sort(key=lambda each: (each.number, each.id))
        epochs = {
            key.removeprefix(EPOCH): _PLAN(value, "")
            for key, value in facts.items()
            if key.startswith(EPOCH)
        }
        done = {f"{each.number} {each.id}" for each in slices}
        unfinished = sum(
            key.removeprefix(BEGUN) not in done for key in facts if key.startswith(BEGUN)
        )
        parts = _summed(slices, epochs)
        return Release(tuple(slices), epochs, parts, unfinished, FOUND in facts)
    except InvalidArgument as error:
        raise InvalidArgument(
            f"store is damaged or edited at {entry.name}: a slice cannot be read ({error})"
        ) from None


def _summed(slices: Sequence[Slice], epochs: dict[str, Json]) -> dict[str, Part]:
    """Return the checked counts of each epoch, in the order in which the epochs occur in slices."""
    parts: dict[str, Part] = {}
    for name, correct, wrong, rounds, lost in chain.from_iterable(each.counts for each in slices):
        if name not in epochs:
            raise InvalidArgument(f"epoch {short_json(name)} is missing")
        directions, prior = epochs[name]["directions"], Prior(*epochs[name]["prior"])
        before = parts.get(name, Part(Tally(0, 0, 0, directions), 0.0, 0, prior))
        parts[name] = before.plus(Tally(correct, wrong, rounds, directions), lost)
    return {name: read_part(part.to_json()) for name, part in parts.items()}


def write_slice(store: Store, entry: StoredAudit, new: Slice, epochs: dict[str, Json]) -> None:
    """Add a slice with the epochs that it begins, and remove the mark that it has begun, in one
    transaction.
    """
    with store.transaction() as connection:
        for name, plan in epochs.items():
            connection.execute(
                *insert_statement(
                    "facts", entry.id, f"{EPOCH}{name}", json.dumps(plan, separators=(",", ":"))
                )
            )
        key = f"{SLICE}{new.number} {new.id}"
        connection.execute(
            *insert_statement(
                "facts", entry.id, key, json.dumps(new.to_json(), separators=(",", ":"))
            )
        )
        connection.execute(
            "DELETE FROM facts WHERE audit = ? AND key = ?",
            (entry.id, f"{BEGUN}{new.number} {new.id}"),
        )
        connection.execute(
            "UPDATE audits SET done = done + ?, planned = done + ? WHERE id = ?",
            (new.runs, new.runs, entry.id),
        )
        store.reseal(entry.id)


# parts of the identity of a release
_PARTS = ("target", "source", "pair", "claim", "batch", "version of NumPy", "version of Python")


@dataclass(frozen=True, slots=True)
class WatchedTarget:
    """Target of a watch: a mechanism, the claim (its own by default), pairs (of its domain by
    default), and the location for witnesses.
    """

    mechanism: Any
    name: str
    claim: Claim | str | None = None
    pair: Pair | Sequence[Pair] | None = None
    target: Json | None = None


@dataclass(frozen=True, slots=True)
class Watched:
    """State of a target after a call."""

    name: str
    release: str
    result: AuditResult
    slices: int  # slices of this release, over all calls
    looks: tuple[tuple[int, float], ...]  # runs and certified bound after each slice

    def line(self, width: int) -> str:
        """Return one line: name, verdict, bound, a picture of the bound over the calls, number of
        calls, release, and notes.
        """
        result = self.result
        claim = result.claim
        verdict = result.verdict.value.replace("_", " ")
        bound = f"{claim.symbol} > {result.parameter_lower:<7.4g} of {claim.parameter:<7.4g}"
        note = result.notes[0] if result.verdict is Verdict.ERROR and result.notes else ""
        calls = (
            f"{self.slices} calls, {self.looks[-1][0] if self.looks else 0:,} runs, release "
            f"{self.release[:8]}"
        )
        return (
            f"{self.name:<{width}}  {verdict:<12}  {bound} "
            f"{sparkline(self.looks, claim.parameter)}  {calls}  {note}"
        ).rstrip()


def sparkline(looks: Sequence[tuple[int, float]], claim: float, most: int = 24) -> str:
    """Return the bound after each of the last calls as a row of bars; a full bar exceeds the claim.

    Examples
    --------
    >>> sparkline([(100, 0.0), (200, 0.5), (300, 0.9), (400, 1.2)], 1.0)
    '▁▄▇█'
    """
    bars = "▁▂▃▄▅▆▇"
    return "".join(
        "█" if bound > claim else bars[min(int(7 * max(bound, 0.0) / claim), 6)]
        for _, bound in looks[-most:]
    )


@dataclass(frozen=True, slots=True)
class _Call:
    """Findings of a call for one target, before the discoveries are known."""

    sampler: Sampler
    findings: Findings
    claim: Claim
    failure: str = ""
    release: str = ""
    entry: StoredAudit | None = None
    known: Release = field(default_factory=Release)


def watch(
    targets: Sequence[WatchedTarget],
    store: Store,
    *,
    seconds: float = 30.0,
    trials: int | None = None,
    confidence: float = 0.99,
    executor: Executor | None = None,
    time_limit: float = 300.0,
    announce: Callable[[str], None] | None = None,
    clock: Callable[[], float] = time.time,
) -> list[Watched]:
    """Add a slice of runs to each target's release, and return the state of all targets.

    Parameters
    ----------
    targets : list of WatchedTarget
    store : Store
        An open store, which keeps the slices of all releases.
    seconds, trials : float, int
        Duration of the call over all targets, and most runs of each target in it.
    confidence : float
        1 - confidence is the false discovery rate over the targets.
    executor, time_limit
        As for `audit`.
    announce : callable, optional
        Called with a line for each new release, unfinished call, or clock that went backwards.
    clock : callable
        The time, for display only.

    Returns
    -------
    list of Watched
        In the order of `targets`.
    """
    report, alpha, count = announce or (lambda line: None), 1 - confidence, len(targets)
    calls = list[_Call]()
    for each in targets:
        options = validated_options(
            each.mechanism,
            promised(each.mechanism, each.claim, "watch"),
            MOST_TRIALS,
            1 - alpha / count,
            # seed of the probe in all calls: equal outputs show that the target has not changed
            0,
            executor,
            each.name,
            time_limit,
            target=each.target,
            stop="violation",
            seconds=seconds / count,
        )
        options = replace(options, trials=trials or MOST_TRIALS)
        calls.append(_run_slice(each, options, store, report, clock, count))
    gamma = alpha * SHARE_FOR_FREQUENCY / count
    discoveries = e_discoveries(
        [_log_evidence(call, gamma) for call in calls], alpha * (1 - SHARE_FOR_FREQUENCY)
    )
    calls = [
        _with_discovery(call, store) if found else call
        for call, found in zip(calls, discoveries, strict=True)
    ]
    number = sum(call.known.found for call in calls)
    return [
        _conclude(call, alpha * (number if call.known.found else 1) / count, each.name)
        for call, each in zip(calls, targets, strict=True)
    ]


def _log_evidence(call: _Call, gamma: float) -> float:
    """Return the log of the evidence against the claim, with frequency limits at error `gamma`."""
    test, claim = call.findings.test, call.claim
    if test is None or not test.parts:
        return 0.0
    return log_e_value(claim, test.parts, claim.parameter, 0.0 if claim.is_pure else gamma)


def _with_discovery(call: _Call, store: Store) -> _Call:
    """Return the call after its release is stored as a discovery."""
    if call.entry is None or call.known.found:
        return call
    store.write("facts", call.entry.id, FOUND, "true")
    return replace(call, known=read_release(store, call.entry))


def _run_slice(
    watched: WatchedTarget,
    options: AuditOptions,
    store: Store,
    report: Callable[[str], None],
    clock: Callable[[], float],
    targets: int,
) -> _Call:
    """Run one slice of a target. A slice of a mechanism that fails is not stored."""
    mechanism, claim, sampler = watched.mechanism, options.claim, Sampler(options)
    call = _Call(sampler, Findings(options), claim)
    try:
        pairs = audited_pairs(mechanism, watched.pair)
        sampler.planned = MIN_RUNS_PER_PAIR * len(pairs)
        options, probed = run_probes(sampler, options, pairs)
        parts = identity_of(mechanism, options.target, pairs, [], claim=claim.identity)
        # the outputs under one seed show changes outside of the source file
        identity = {
            "kind": "watch",
            **{name: parts[name] for name in _PARTS},
            "outputs": " ".join(each.digest for each in probed),
        }
        release = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]
        entry = _entry(store, identity, f"{watched.name} {release}", watched.name, report)
        known = read_release(store, entry)
        call = replace(call, release=release, entry=entry, known=known)
        _report_irregular_calls(known, watched.name, clock(), report)
        options = replace(options, seed=fresh_seed())
        return _continue(call, entry, options, probed, store, clock(), targets)
    except MechanismFailed as error:
        return replace(call, failure=str(error))
    finally:
        sampler.close()


def _entry(
    store: Store, identity: Identity, name: str, target: str, report: Callable[[str], None]
) -> StoredAudit:
    """Return the entry of a release in the store, and report a new one with the parts in which it
    differs from the last.
    """
    found = store.find(identity, name)
    if found is not None:
        return found
    others = [
        entry
        for entry in store.entries()
        if entry.identity.get("kind") == "watch" and entry.name.rpartition(" ")[0] == target
    ]
    if others:
        changed = [
            part for part, value in identity.items() if others[-1].identity.get(part) != value
        ]
        hidden = " (although its source file is the same)" if changed == ["outputs"] else ""
        report(
            f"{target}: new release, its evidence starts again; changed{hidden}: "
            f"{', '.join(changed)}"
        )
    return store.begin(identity, name, 0)


def _report_irregular_calls(
    known: Release, name: str, now: float, report: Callable[[str], None]
) -> None:
    """Report calls that ended without a slice, and a clock that went backwards."""
    if known.unfinished:
        report(
            f"{name}: {known.unfinished} earlier calls were killed, or the mechanism "
            "failed; their rounds do not count"
        )
    if known.slices and now < known.slices[-1].time:
        late = f"the clock went back, the last call was {known.slices[-1].time - now:.0f} s later"
        report(f"{name}: {late}; slices are ordered by number, so the counts are right")


def _stored_test(
    known: Release, options: AuditOptions, probed: Sequence[ProbedPair]
) -> tuple[EventTest | None, int]:
    """Return the test of the slices so far, and the number of outputs that its event was learned
    from; None if there are no slices.
    """
    if not known.parts:
        return None, 0
    plan = known.epochs[next(reversed(known.parts))]
    if plan["pair"] >= len(probed):
        raise InvalidArgument(
            f"store is damaged or edited at {options.name}: an epoch has pair number "
            f"{plan['pair']} of {len(probed)} pairs"
        )
    pair, parts = probed[plan["pair"]], tuple(known.parts.values())
    planned, event = sum(part.tally.rounds for part in parts), read_event(plan["event"])
    test = EventTest(pair.pair, pair.index, options.alpha, planned, event, plan["method"], parts)
    return test, plan["trained"]


def _continue(
    call: _Call,
    entry: StoredAudit,
    options: AuditOptions,
    probed: Sequence[ProbedPair],
    store: Store,
    now: float,
    targets: int,
) -> _Call:
    """Continue the sequential test of a release by one slice, store the slice, and return the
    release with it.
    """
    sampler, known = call.sampler, call.known
    start, trained = _stored_test(known, options, probed)
    findings = replace(call.findings, options=options, test=start)
    if start is not None:
        findings = findings.on(start.pair, sampler)
    if known.found:
        return replace(call, findings=findings)
    number, name = (known.slices[-1].number if known.slices else 0) + 1, f"{options.seed:x}"
    # a call that is killed is not forgotten
    store.write("facts", entry.id, f"{BEGUN}{number} {name}", json.dumps(round(now, 1)))
    sampler.seed, outputs = options.seed, list[BothSides]()
    if start is None:
        selected, outputs, scores = select_pair(sampler, options, probed)
        findings = replace(findings, pairs=scores).on(selected.pair, sampler)
    else:
        selected = probed[start.index]
    running = SequentialTest(sampler, findings.options, selected, outputs)
    plans, interrupted, test = list[Json](), False, start
    try:
        for test in running.run(start, trained):
            if len(test.parts) > len(known.parts) + len(plans):
                plans.append(_plan_of_epoch(test, running.trained))
    except KeyboardInterrupt:
        interrupted = True
    parts = test.parts if test is not None else ()
    names = [*known.parts, *(epoch_id(name, place, plan) for place, plan in enumerate(plans))]
    counts = _added_counts(known, names, parts)
    claim = findings.options.claim
    # at the largest error of a discovery
    if test is not None and is_refuted(
        claim, parts, claim.parameter, min(options.alpha * targets, 0.5)
    ):
        _require_independent_slices(
            sampler, test, [*chain.from_iterable(each.counts for each in known.slices), *counts]
        )
    bound = anytime_bound(claim, parts, options.alpha) if parts else 0.0
    new = Slice(number, name, now, sampler.done, tuple(counts), min(bound, 1e300))
    write_slice(store, entry, new, dict(zip(names[len(known.parts) :], plans, strict=True)))
    if interrupted:
        raise KeyboardInterrupt
    return replace(call, findings=replace(findings, test=test), known=read_release(store, entry))


def _plan_of_epoch(test: EventTest, trained: int) -> Json:
    """Return the plan of the latest epoch, whose event was learned from `trained` outputs."""
    return {
        "event": test.event.to_json(),
        "method": test.method,
        "directions": test.event.directions,
        "prior": test.parts[-1].to_json()["prior"],
        "pair": test.index,
        "trained": trained,
    }


def _added_counts(known: Release, names: Sequence[str], parts: Sequence[Part]) -> list[EpochCounts]:
    """Return the counts that a call has added to each epoch."""
    added = list[EpochCounts]()
    for epoch, part in zip(names, parts, strict=True):
        none = Part(Tally(0, 0, 0, part.tally.directions))
        before, tally = known.parts.get(epoch, none), part.tally
        rounds = tally.rounds - before.tally.rounds
        if rounds:
            right, wrong = tally.correct - before.tally.correct, tally.wrong - before.tally.wrong
            added.append((epoch, right, wrong, rounds, part.lost - before.lost))
    return added


def _require_independent_slices(
    sampler: Sampler, test: EventTest, counts: Sequence[EpochCounts]
) -> None:
    """Raise Unfit if runs may depend on each other: slices of an epoch, each of a process of its
    own, may have other frequencies of guesses.
    """
    slices: dict[str, list[list[int]]] = {}
    for epoch, right, wrong, rounds, lost in counts:
        slices.setdefault(epoch, []).append([rounds - right - wrong, right, wrong - lost])
    sampler.dependence += [log_dependence(each) for each in slices.values() if len(each) > 1]
    counted = Counted(test.pair, test.index, test.event, test.tally, test.parts[-1].lost)
    if doubt := require_independent(sampler, [counted]):
        raise Unfit(doubt)


def _conclude(call: _Call, alpha: float, name: str) -> Watched:
    """Return the state of a target, tested at error `alpha`."""
    test, known = call.findings.test, call.known
    options = replace(call.findings.options, confidence=1 - alpha)
    call.sampler.done = call.sampler.planned = (
        sum(each.runs for each in known.slices) or call.sampler.done
    )
    if test is not None:  # look at the counts again, at this error
        plain: dict[str, Any] = {"basis": None, "lower": 0.0, "epsilon": 0.0, "p_value": 1.0}
        test = replace(test, alpha=alpha, looks=known.looks[:-1], **plain)
        test = test.look(options.claim, options.alpha, options.alpha, call.sampler.done)
    findings = replace(call.findings, options=options, test=test)
    result = build_result(call.sampler, findings, Ending(call.failure, failed=bool(call.failure)))
    return Watched(name, call.release, result, len(known.slices), known.looks)
