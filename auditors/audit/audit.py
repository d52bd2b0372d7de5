"""Entry point of the black-box audit: validate the request, run the stages, or restore them from a
store, and build the result.

A hash of the source does not cover imported modules or globals. So a store keeps digests of
outputs: of each pair's probe, and of the first chunk of each stage that stores outputs. The same
seed must reproduce these digests before any stored data are used. The counts of a mechanism that
cannot be seeded are compared with fresh runs instead, at error `_ALARM_PROBABILITY`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import nullcontext
from dataclasses import replace
from os import PathLike
from typing import Any, TypedDict, Unpack

import numpy as np

from dpwitness.auditors.audit.after_test import (
    separate_causes,
    suggest_categories,
    suggest_wider_domain,
)
from dpwitness.auditors.audit.conclude import Findings, build_result, conclude
from dpwitness.auditors.audit.options import (
    LEAST,
    MOST_TRIALS,
    AuditOptions,
    Progress,
    require_find,
    require_seconds,
    validated_options,
)
from dpwitness.auditors.audit.pair_choice import (
    Known,
    audit_low_bits,
    first_look,
    ordered,
    pairs_of_slow_runs,
    run_probes,
    select_pair,
    trace_evidence,
    traced_pairs,
    with_suggested_pairs,
)
from dpwitness.auditors.audit.probe import (
    ProbedPair,
    TrainedPair,
    probe_pair,
    probe_pairs,
    sample_first_chunk,
)
from dpwitness.auditors.audit.result import AuditResult, BitLevel
from dpwitness.auditors.audit.sampler import (
    Sampler,
    ScoredMechanism,
    fix_budget,
    replan,
    usable_scores_of,
)
from dpwitness.auditors.audit.test import EventTest, begin_test, extend, run_test, single_event
from dpwitness.auditors.events.event import Binned, Event
from dpwitness.auditors.events.learning import Learned
from dpwitness.auditors.events.outputs import Score, collect_scores
from dpwitness.auditors.events.rule_reader import columns_of
from dpwitness.auditors.search.catalogue import audited_pairs, unverified_notes
from dpwitness.auditors.witnesses.audit_records import AuditLedger, identity_of
from dpwitness.auditors.witnesses.kinds import recompute_bounds
from dpwitness.auditors.witnesses.store import Store, open_store
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.auditors.workers.chunks import Segment
from dpwitness.auditors.workers.pair_exercise import exercised
from dpwitness.auditors.workers.rounds import Phase
from dpwitness.core.claims import Claim, promised
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.domains import Domain
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import (
    InvalidArgument,
    require_callable,
    require_integer,
    require_one_of,
    require_type,
)

__all__ = ["TRIALS", "Progress", "audit", "confirm"]

TRIALS = 1_000_000


class OtherSettings(TypedDict, total=False):
    """The other parameters of `audit`, by keyword; its docstring describes them."""

    name: str | None
    time_limit: float
    progress: Progress | None
    announce: Callable[[str], None] | None
    target: Json | None
    extend_to: int | None
    trace: bool
    causes: bool


_DEFAULTS: OtherSettings = {
    "name": None,
    "time_limit": 300.0,
    "progress": None,
    "announce": None,
    "target": None,
    "extend_to": None,
    "trace": True,
    "causes": True,
}


def audit(
    mechanism: Any,
    *,
    claim: Claim | str | None = None,
    pair: Pair | Sequence[Pair] | None = None,
    domain: Domain | None = None,
    trials: int | None = None,
    seconds: float | None = None,
    clock: str = "wall",
    confidence: float = 0.99,
    seed: int = 0,
    executor: Executor | None = None,
    stop: str | None = None,
    bits: bool = True,
    scores: Sequence[Any] | None = None,
    store: str | PathLike[str] | Store | None = None,
    sequential: bool = False,
    find: float | None = None,
    **others: Unpack[OtherSettings],
) -> AuditResult:
    """Search for a violation of a privacy claim by running the mechanism, and certify what is
    found.

    Parameters
    ----------
    mechanism : Mechanism or callable
        An object with ``sample(dataset, size, rng)``, or such a function. A call returns `size`
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
        Set of datasets from whose catalog pairs are taken; ``mechanism.domain`` if neither pair nor
        domain is given.
    trials : int
        Total number of runs of the mechanism: both datasets, pilot, training and test. At least
        1,000; 1,000,000 by default. Runs that a violation is compared with, to see whether runs are
        independent, are not counted: they take about a second, or 10 % of the duration if that is
        longer.
    seconds : float, optional
        Approximate duration of the audit, instead of `trials`. Runs are timed to fix `trials`
        before the audit begins, and a note reports the number. The same seed gives the same counts
        with the same `trials`, not with the same `seconds`.
    clock : {"wall", "cpu"}
        What `seconds` counts: wall time, or CPU time of this process and all processes that it has
        started, such as workers and the library's own interpreter. CPU time gives about the same
        number of runs on a busy machine. CPU time needs Linux.
    confidence : float
        Confidence of the value-level verdict and, separately, of the bit-level verdict. The
        probability of a false VIOLATED is at most 1 - confidence.
    seed : int
        Root of all randomness: the same seed gives the same counts on any executor.
    executor : concurrent.futures.Executor, optional
        Use threads for kernels that release the GIL, and processes for Python code (the mechanism
        must then be importable). Mechanisms that use the process's generators run in one thread at
        a time.
    stop : {"gross", "violation", "never"}, optional
        When to stop before the budget is spent: when a violation far beyond the claim is certified
        (a bound above 3 times the parameter plus 2, the default), when any violation is certified
        (the default of sequential audits), or never.
    bits : bool
        Whether to audit the low bits of floating-point outputs as well.
    scores : list of callables or of pairs (name, callable), optional
        Functions of the outputs, as `sample` returns them, that may distinguish the datasets. Each
        returns a number for every output, an array (n,), or several numbers, (n, k) or a dict of
        arrays (n,). Events may use the scores in addition to the outputs' own numbers, and also the
        scores that a mechanism suggests with a method ``features(outputs)``. A score must be a
        function of each output alone. A score that raises, or returns NaN or the wrong length in a
        test before the audit, is left out, and a note names it.
    store : path or open Store, optional
        SQLite file that stores the plan and the counts; it may contain other audits. If the same
        audit is stopped at any moment, it resumes from the file and ends with the counts of an
        uninterrupted audit. Only one process at a time may write to the file. The first rounds are
        run again to verify the stored data, also for a finished audit.
    sequential : bool
        Whether to test with an anytime-valid certificate, which has no planned number of runs. The
        audit ends when a violation is certified, when its event cannot show a violation of size
        `find`, or after `seconds` or at most `trials` runs (1,000,000 if neither is given). The
        result is valid whatever ends the audit. With a store, a later call with a larger budget
        continues the test. Low bits are not audited.
    find : float, optional
        Smallest violation that a sequential audit looks for, as a multiple (above 1) of the claim;
        1.1 by default.

    Returns
    -------
    AuditResult
        Verdict, certified bounds and counts.

    Other Parameters
    ----------------
    name : str, optional
        Name of the audit in the result and in the random streams; the mechanism's name by default.
    time_limit : float
        Time limit of one chunk of rounds, in seconds, after which the mechanism counts as hung; ten
        times the expected duration if longer.
    progress : callable, optional
        Called with (runs done, runs planned). If it has a method ``interim_bound(symbol, bound)``,
        this method is called with the bound certified at each interim analysis.
    announce : callable, optional
        Called before the audit begins with a line on the expected number of runs and duration. With
        a store, it is also called with a line on the stored part of the audit.
    target : dict, optional
        Import location of the mechanism for the witness; determined automatically for importable
        mechanisms.
    extend_to : int, optional
        New total number of runs, larger than planned, for a finished audit in the store. Its event
        is tested on a stage of fresh rounds. The k-th extension spends an additional 2^-k of alpha,
        whatever its reason and length. The confidence of the result is that of all its statements
        together.
    trace : bool
        Whether a few traced runs of Python mechanisms, at most 5 % of the runs and 2 s, order the
        pairs, propose an event, and explain the verdict. No test counts them.
    causes : bool
        Whether a violation is followed by separate tests of exceptions, of repeated values and of
        all other outputs, if exceptions or repeated values alone show a violation. The tests use
        the remaining runs, or another fifth of `trials`; after a sequential audit, about as many
        runs as the audit has made.

    Raises
    ------
    InvalidArgument
        If an argument is invalid. Faults of the mechanism give the verdict ERROR instead.

    Examples
    --------
    >>> import numpy as np
    >>> def leaky(dataset, size, rng):
    ...     return dataset[0] + rng.laplace(0.0, 0.5, size)
    >>> result = audit(leaky, claim="pure:1", pair=Pair(np.array([0.0]), np.array([1.0])),
    ...     trials=100_000, seed=1)
    >>> result.verdict
    <Verdict.VIOLATED: 'VIOLATED'>
    """
    claim = promised(mechanism, claim, "audit")
    if unknown := next(iter(others.keys() - _DEFAULTS.keys()), None):
        raise TypeError(f"audit() got an unexpected keyword argument {unknown!r}")
    settings: OtherSettings = {**_DEFAULTS, **others}
    announce, trace, causes = settings["announce"], settings["trace"], settings["causes"]
    flags = {"sequential": sequential, "bits": bits, "trace": trace, "causes": causes}
    for argument, given in flags.items():
        require_type(argument, given, (bool, np.bool_), "be True or False", "audit")
    stop = ("violation" if sequential else "gross") if stop is None else stop
    require_one_of("stop", stop, ["gross", "violation", "never"], "audit")
    require_seconds(seconds, None if sequential else trials, clock, executor, "audit")
    require_callable("announce", announce, "audit", arguments=1, optional=True)
    if trials is None:
        trials = MOST_TRIALS if sequential and seconds is not None else TRIALS
    options = validated_options(
        mechanism,
        claim,
        trials,
        confidence,
        seed,
        executor,
        settings["name"],
        settings["time_limit"],
        settings["progress"],
        settings["target"],
        stop=stop,
        bits=bool(bits) and not sequential,
        causes=bool(causes),
        seconds=seconds,
        clock=clock,
        announce=announce,
        find=require_find(find, bool(sequential), settings["extend_to"]),
        trace=bool(trace) and first_look().is_traceable(mechanism),
    )
    declared = getattr(mechanism, "domain", None) if domain is None else None
    if pair is None:
        options = replace(options, searched=declared if domain is None else domain)
    sampler = Sampler(options)
    pairs = audited_pairs(mechanism, pair, domain)
    sampler.note(*unverified_notes(pairs, None if pair is None else declared))
    for candidate in pairs:
        claim.on(candidate)  # raises if the claim does not cover the pair
    candidates = collect_scores(scores, mechanism, "audit")
    total = _validated_total(settings["extend_to"], store)
    with (
        nullcontext(store) if store is None or isinstance(store, Store) else open_store(store) as (
            opened
        )
    ):
        totals: Sequence[int] = ()
        if opened is not None:
            identified = _identity(options, bits=bool(bits), trace=bool(trace))
            identity = identity_of(mechanism, options.target, pairs, candidates, **identified)
            sampler.ledger = AuditLedger(opened, identity, options.name, trials)
            totals = () if total is None else extension_totals(sampler.ledger, total)
            if announce is not None:
                announce(sampler.ledger.describe(sequential=bool(sequential)))
        return conclude(sampler, options, _run(sampler, options, pairs, candidates, totals))


def _validated_total(extend_to: int | None, store: object) -> int | None:
    """Return the number of runs to which an audit in a store is extended. Raise InvalidArgument if
    it is invalid, or the store is.
    """
    kinds = str, PathLike, Store
    require_type(
        "store", store, kinds, "be the path of a file, or an open Store", "audit", optional=True
    )
    if extend_to is None:
        return None
    if store is None:
        raise InvalidArgument(
            "audit: extend_to needs the store of the audit that is extended, got "
            f"extend_to={extend_to} without one"
        )
    return require_integer("extend_to", extend_to, "audit", least=LEAST, most=MOST_TRIALS)


def _identity(options: AuditOptions, *, bits: bool, trace: bool) -> Json:
    """Return the arguments that identify an audit in a store. A sequential audit may be continued
    with another budget.
    """
    budget: Json = {"sequential": True}
    if options.find is None:
        budget = {
            "trials": options.trials if options.seconds is None else None,
            "seconds": options.seconds,
        }
        if options.clock != "wall":
            budget["clock"] = options.clock
    optional = {"trace": trace, "causes": options.causes}
    return {
        "name": options.name,
        "claim": options.claim.identity,
        "seed": options.seed,
        "confidence": options.confidence,
        "stop": options.stop,
        "bits": bits,
        **budget,
        **{name: False for name, wanted in optional.items() if not wanted},
    }


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
    """Test one fixed event on one pair. All rounds count for the certificate, because nothing is
    searched.

    The arguments are those of `audit`; `scores` must list their columns.
    """
    options = validated_options(
        mechanism, claim, trials, confidence, seed, executor, name, time_limit, progress, target
    )
    sampler = Sampler(options)
    options = _with_scores(sampler, Findings(options).on(pair, sampler).options, scores)
    sampler.note(*unverified_notes([pair]))

    def stages() -> Iterator[Findings]:
        """Run the fixed event's test."""
        probed = probe_pair(sampler, options, pair, 0)
        learned = Learned(
            single_event(event), 0.0, "given", event if isinstance(event, Binned) else None
        )
        wide = replace(options, width=max(probed.width, columns_of(event)))
        for test in run_test(sampler, wide, probed, TrainedPair(learned, (), sampler.remaining, 0)):
            yield Findings(options, test=test)

    return conclude(sampler, options, stages())


def _run(
    sampler: Sampler,
    options: AuditOptions,
    pairs: Sequence[Pair],
    scores: Sequence[Score],
    totals: Sequence[int],
) -> Iterator[Findings]:
    """Run the stages, or restore them from the store, and then all extensions; `totals` lists the
    total number of runs after each extension.

    Yields the findings after each change. A sequential audit stores its facts and counts only.
    """
    if scores:
        options = _with_usable_scores(sampler, options, pairs[0], scores)
    yield Findings(options)
    pairs = pairs_of_slow_runs(sampler, options, pairs) or with_suggested_pairs(
        sampler, options, pairs
    )
    ledger = sampler.ledger
    ends = {} if ledger is None else ledger.values("end ")
    known = [ends[key] for key in (f"end {k}" for k in range(len(totals) + 1)) if key in ends]
    if known:
        findings, probed = yield from _restore(sampler, options, pairs, known[-1])
    else:
        findings, probed = yield from _run_stages(sampler, options, pairs)
        if ledger is not None and options.find is None:
            ledger.end(0, sampler.to_json() | findings.to_json(pairs))
    begun = findings.extensions
    for number, total in enumerate(totals[begun:], start=begun + 1):
        test = findings.test
        assert test is not None and ledger is not None
        if test.stopped:
            sampler.note("not extended: the test ended before its rounds were over")
            break
        where = probed[test.index]
        for extended in extend(sampler, findings.options, where, test, number, total):
            findings = replace(findings, test=extended, extensions=number)
            yield findings
        ledger.end(number, sampler.to_json() | findings.to_json(pairs))


def _run_stages(
    sampler: Sampler, options: AuditOptions, pairs: Sequence[Pair]
) -> Generator[Findings, None, tuple[Findings, list[ProbedPair]]]:
    """Run the stages of an audit, yield the findings after each change, and return the last
    findings and the usable pairs.

    A sequential audit chooses a pair from few rounds, and tests the pair until a violation is
    certified or excluded.
    """
    options = fix_budget(sampler, options, pairs)
    options, probed = run_probes(sampler, options, pairs)
    findings, known = Findings(options), Known()
    if options.bits:
        yield replace(findings, bit_level=BitLevel(Verdict.NOT_REFUTED, 0.0))
        bit_level, known = audit_low_bits(sampler, options, probed)
        findings = replace(findings, bit_level=bit_level)
        yield findings
    head = traced_pairs(sampler, options, [each.pair for each in probed], "probed")
    selected, outputs, scores = select_pair(sampler, options, probed, head, known)
    replan(sampler, options, selected.index, "for the pair")
    traced, shift = trace_evidence(sampler, options, selected.pair, [probed[k].pair for k in head])
    options = replace(options, shift=shift)
    findings = replace(findings, options=options, pairs=scores, trace=traced)
    findings = findings.on(selected.pair, sampler)
    yield findings
    tests, trained = begin_test(sampler, findings.options, selected, outputs)
    for tested in tests:
        findings = replace(findings, test=tested)
        yield findings
    if options.causes and findings.refuted:
        yield replace(findings, causes=())
        causes = separate_causes(sampler, findings.options, selected, trained)
        findings = replace(findings, causes=causes)
        yield findings
    if options.find is None and options.searched is not None:
        parts = findings.test.parts if findings.test else ()
        tried = max(1, len(findings.pairs))
        if exercised(findings.options.claim, parts, sampler.seen, tried)[0] is False:
            suggest_wider_domain(sampler, options.searched)
        suggest_categories(sampler, options.searched, outputs or [selected.probe.sides])
    return findings, probed


def _with_usable_scores(
    sampler: Sampler, options: AuditOptions, pair: Pair, scores: Sequence[Score]
) -> AuditOptions:
    """Try the scores on a few runs, and make the mechanism return the usable ones with its
    outputs.
    """
    stage = sampler.stage(pair, Phase.SCORES, 0, 1, 1)
    usable, notes, runs = sampler.call(usable_scores_of, stage, scores)
    sampler.advance(runs)
    sampler.note(*notes)
    keys = sampler.settled("scores", lambda: [[score.name, list(score.keys)] for score in usable])
    by_name = {score.name: score for score in scores}
    settled = tuple(replace(by_name[name], keys=tuple(each)) for name, each in keys)
    return _with_scores(sampler, options, settled)


def _with_scores(
    sampler: Sampler, options: AuditOptions, scores: tuple[Score, ...]
) -> AuditOptions:
    """Make the mechanism return these scores with its outputs."""
    if scores:
        sampler.run = ScoredMechanism(sampler.run, scores)
    return replace(options, scores=scores)


# fresh rounds compared with the stored counts of a mechanism that cannot be seeded
_FRESH_ROUNDS = 1_000
_ALARM_PROBABILITY = 1e-9  # probability that this comparison rejects the unchanged mechanism


def _restore(
    sampler: Sampler, options: AuditOptions, pairs: Sequence[Pair], data: Json
) -> Generator[Findings, None, tuple[Findings, list[ProbedPair]]]:
    """Restore a finished audit, run its first rounds again, and return the findings and the usable
    pairs.

    Raise InvalidArgument if the rounds differ, or the stored bounds do not follow from the counts.
    """
    ledger = sampler.ledger
    assert ledger is not None
    sampler.restore(data)
    findings = Findings.from_json(data, options, pairs)
    yield findings
    again = copy.copy(sampler)  # these rounds are not counted, and their notes are stored already
    again.notes, again.single, again.shared, again.done = list(sampler.notes), set(), False, 0
    tried = ordered(pairs, ledger.value("order", None))
    probed = probe_pairs(again, findings.options, tried, len(ledger.values("probe ")))
    sampler.repeatable = again.repeatable
    if findings.test is not None:
        if not sampler.repeatable:
            _require_same_frequencies(sampler, findings.test)
        findings = findings.on(findings.test.pair, sampler)
        yield findings
    try:
        recompute_bounds(replace(build_result(sampler, findings), subject=None).to_json())
    except InvalidArgument as error:
        raise InvalidArgument(
            f"store is damaged or edited, got {ledger.store.path}: {error}"
        ) from None
    return findings, probed


def _require_same_frequencies(sampler: Sampler, test: EventTest) -> None:
    """Raise InvalidArgument if fresh runs do not fit the stored counts of the last stage of a
    test.
    """
    ledger, event, stored = sampler.ledger, single_event(test.event), test.tally
    assert ledger is not None
    stage = sampler.stage(test.pair, Phase.TIMING, test.index, _FRESH_ROUNDS, _FRESH_ROUNDS)
    one, zero = sampler.call(sample_first_chunk, stage)
    if one is None or zero is None or not stored.rounds:
        return
    from scipy.stats import hypergeom  # half a second, and few audits need it

    rounds = len(one) + len(zero)
    fresh = Segment([np.array([event.tabulate(one), event.tabulate(zero)])]).tally(event.directions)
    for found, known in ((fresh.correct, stored.correct), (fresh.wrong, stored.wrong)):
        law = hypergeom(rounds + stored.rounds, found + known, rounds)
        if min(law.cdf(found), law.sf(found - 1)) < _ALARM_PROBABILITY / 4:
            raise ledger.changed_mechanism(
                f"{found:,} of {rounds:,} rounds run now are on one side of the event, "
                f"and {known:,} of {stored.rounds:,} stored ones: one mechanism gives "
                f"this with probability below {_ALARM_PROBABILITY:g}"
            )
    sampler.note(
        f"the mechanism cannot repeat its outputs: {_FRESH_ROUNDS:,} rounds run now "
        f"fit the counts of the store (tested at error {_ALARM_PROBABILITY:g}), "
        "a small change of the mechanism would not be detected"
    )


def extension_totals(ledger: AuditLedger, longer: int) -> list[int]:
    """Return the total number of runs after each extension, up to and including `longer`.

    If `longer` is new, the ledger stores it and marks the audit as unfinished.

    Raise InvalidArgument if the audit is not finished, or if a new total is not above the number of
    runs that are planned already.
    """
    known: list[int] = ledger.value("extensions", [])
    if longer not in known:
        least = known[-1] if known else ledger.entry.planned
        if ledger.entry.verdict is None:
            raise InvalidArgument(
                "audit: extend_to needs a finished audit, but the audit in "
                f"{ledger.store.path} is not finished"
            )
        if longer <= least:
            raise InvalidArgument(
                f"audit: extend_to must be above the {least:,} runs that are planned "
                f"already, got {longer:,}"
            )
        known = [*known, longer]
        ledger.put("extensions", known)
        ledger.reopen(longer)
    return known[: known.index(longer) + 1]
