"""Choice of the tested pair: coupled runs suggest pairs of a domain, looks of few runs choose those
that get a probe, traced runs order these, and pilots rank them, for low bits and for values.

**Looks.** Every pair has a look. After each look the better half remains, so that the runs per pair
double. Pairs are ranked only, on runs that no test counts, so a look costs runs and no error. Ranks
need less than bounds: tens of runs separate a pair with a large privacy loss from the others. Pairs
with a common dataset share the runs on this dataset, and all pairs share the spread of each number.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from dpwitness.auditors.audit.options import (
    FEWEST,
    LEAST,
    MIN_RUNS_PER_PAIR,
    PILOT_SHARE,
    SCREEN_SHARE,
    SHORT_PAIRS,
    TRAIN_VALUES,
    AuditOptions,
    RunCost,
    bit_rounds,
    chunk_size,
    probe_chunk,
    require_enough_trials,
    tried_pairs,
)
from dpwitness.auditors.audit.probe import (
    BothSides,
    ProbedPair,
    both_sides,
    probe_pairs,
    training_outputs,
)
from dpwitness.auditors.audit.result import BitLevel, PairScore
from dpwitness.auditors.audit.sampler import Sampler
from dpwitness.auditors.events.event import Event
from dpwitness.auditors.events.learning import expected_certificate, learn_float_bits
from dpwitness.auditors.events.outputs import Outputs, concatenate
from dpwitness.auditors.search.coupled import FEWEST_PAIRS, MOST_PAIRS, coupled_pairs
from dpwitness.auditors.search.few_runs import few_run_findings, run_duration
from dpwitness.auditors.statistics.certificate import Part, Tally
from dpwitness.auditors.statistics.combination import combined_bound
from dpwitness.auditors.traces.evidence import Limits, TraceEvidence, TraceRequest
from dpwitness.auditors.witnesses.kinds import kind_named
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.auditors.workers.descriptions import constants_of
from dpwitness.auditors.workers.rounds import Phase, is_builtin_mechanism
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.domains.frames import Table
from dpwitness.core.protocols import FloatArray, MechanismFailed
from dpwitness.core.values.json_codec import from_jsonable
from dpwitness.core.values.json_reader import Json
from dpwitness.mechanisms.wrappers.single_runs import PerRun

_LOOK_SPACING = 2**16  # looks use this many indices each in the keys of their random streams
_PSEUDO_COUNT = 0.5  # added to each count before a log-ratio
_MAX_DISTANCE = 100.0  # cap of the distance of two medians, in units of the spread
# shares of a time budget that may be spent when pairs are compared by few runs, and ranked
_COMPARED, _RANKED = 0.3, 0.55
# maximum number of columns that are compared: those that vary most between datasets
_MAX_COLUMNS = 512


def screen(sampler: Sampler, options: AuditOptions, pairs: Sequence[Pair], most: int) -> list[Pair]:
    """Return the `most` pairs that look worst: those that exceed the claim in a trace, then those
    that few runs of each pair rank highest.

    The choice is stored, because a resumed audit must use the same pairs.
    """
    before = sampler.done

    def find() -> Json:
        # as many pairs as the runs allow have a look: all, or the first half of them and pairs at
        # equal distances from the rest; halving doubles the runs if no look can have fewer rounds
        share, least = _look_size(sampler.planned)
        looks = 1 if sampler.planned >= MIN_RUNS_PER_PAIR else 2
        room = max(2, int(share * sampler.planned) // (looks * least))
        room = min(len(pairs), room, sampler.most_looks, _LOOK_SPACING)
        first = room // 2 if room < len(pairs) else room
        others = np.linspace(first, len(pairs) - 1, room - first).astype(int).tolist()
        looked = [*range(first), *others]
        ranked, count = _halve(sampler, options, pairs, looked, most)
        order = list(dict.fromkeys([*traced_pairs(sampler, options, pairs, "all"), *ranked]))[:most]
        # where the mechanism fails on all pairs, the probe reports it
        return {"order": order or looked[:most], "looked": count, "runs": sampler.done - before}

    if len(pairs) <= most:
        return list(pairs)
    found = sampler.settled("order", find)
    if sampler.done == before:  # restored
        sampler.advance(found["runs"])
    looked = "all" if found["looked"] == len(pairs) else str(found["looked"])
    sampler.note(
        f"{len(found['order'])} of {len(pairs)} pairs were tried, the worst in a comparison of "
        f"{looked} pairs with {found['runs']:,} runs; raise trials to try more pairs"
    )
    return ordered(pairs, found)


def with_suggested_pairs(
    sampler: Sampler, options: AuditOptions, pairs: Sequence[Pair]
) -> list[Pair]:
    """Return the pairs that a search by coupled runs suggests, and the given pairs after them.

    Only pairs of a domain are searched, for mechanisms that take a seed. The search takes a share
    of the time budget, or a number of runs that follows from the number of runs of the audit.
    """
    domain = options.searched
    if domain is None:
        return list(pairs)
    coupled = options.seeded and not is_builtin_mechanism(sampler.run)
    if isinstance(domain, Table) and domain.size is None:
        most = domain.largest if coupled else domain.records
        sampler.note(f"the domain declares no size: pairs of up to {most} rows were tried")
    if not coupled:
        return list(pairs)

    def find() -> Json:
        if options.seconds is not None:
            count, seconds = MOST_PAIRS, 0.08 * options.seconds
        else:
            # the number of runs of a sequential audit is not planned
            trials = options.trials if options.find is None else 50_000
            single = isinstance(getattr(sampler.run, "__self__", sampler.run), PerRun)
            # to the cost of a function that makes many runs per call, few calls add noticeably
            affordable = trials // 500 if single else FEWEST_PAIRS + trials // 40_000
            count, seconds = min(300, affordable), 10.0
        stage, constants = sampler.stage(pairs[0], Phase.SEARCH, 0, 1, 1), constants_of(sampler.run)
        with suppress(MechanismFailed):  # the probe reports it
            found, late = sampler.call(
                coupled_pairs,
                stage,
                domain,
                constants,
                pairs,
                count,
                seconds,
                options.clock,
                limit=4 * options.time_limit,
            )
            if late and options.seconds is None:
                sampler.note(
                    f"the search for pairs took longer than {seconds:g} s: another machine may "
                    "test another pair"
                )
            return {"pairs": [pair.to_json() for pair in found]}
        return {"pairs": []}

    before = sampler.spent
    found = [
        Pair(from_jsonable(each["d0"]), from_jsonable(each["d1"]), each["relation"], each["why"])
        for each in sampler.settled("suggested", find)["pairs"]
    ]
    sampler.searching += sampler.spent - before
    return [*found, *pairs]


def pairs_of_slow_runs(
    sampler: Sampler, options: AuditOptions, pairs: Sequence[Pair]
) -> list[Pair]:
    """Return the pairs on which a few runs show a fault, if 1,000 runs take longer than the time
    budget; otherwise none.

    Raise InvalidArgument if even the least audit takes longer. The message lists what the runs and
    their trace show.
    """
    seconds = options.seconds
    if seconds is None or options.find is not None:
        return []
    budget = seconds

    def find() -> list[tuple[int, str]]:
        stage = sampler.stage(pairs[0], Phase.SEARCH, 0, 1, 1)
        with suppress(MechanismFailed):  # the probe reports it
            run = sampler.call(run_duration, stage, options.clock)
            if run * LEAST <= budget:
                return []
            refused = run * FEWEST > budget
            share, limit = (0.4 if refused else 0.15) * budget, budget + options.time_limit
            found: list[tuple[int, str]] = sampler.call(
                few_run_findings, stage, pairs, share, limit=limit
            )
            if not refused:
                return found
            shown = [text for _, text in found]
            if options.trace:
                request = _trace_request(options, pairs[:1])
                limits = Limits(options.trials, 0.1 * budget)
                evidence, _, _ = first_look().worst_evidence(replace(request, limits=limits))
                shown += map(str, evidence.findings) if evidence else []
            cost = RunCost(run, 0.02, 0.1, 1, 2, 0.0)
            require_enough_trials(
                cost, 0, SHORT_PAIRS, budget, options.clock, "audit", FEWEST, shown=shown
            )
        return []

    before = sampler.spent
    faulty = sampler.settled("few runs", find)[:SHORT_PAIRS]
    sampler.searching += sampler.spent - before
    sampler.note(*(f"a few runs show: {text}" for _, text in faulty))
    return [pairs[k] for k, _ in faulty]


def ordered(pairs: Sequence[Pair], stored: Json | None) -> list[Pair]:
    """Return the pairs in the order that `screen` has stored."""
    return list(pairs) if stored is None else [pairs[k] for k in stored["order"]]


def first_look() -> Any:
    """Return the traced runs before an audit, which the kind of traces offers."""
    kind = kind_named("trace")
    assert kind is not None
    return kind.first_look


def _trace_request(options: AuditOptions, pairs: Sequence[Pair]) -> TraceRequest:
    """Return the request for traced runs on these pairs."""
    return TraceRequest(
        options.mechanism,
        pairs,
        options.claim,
        options.seed,
        Limits.of(options.trials, options.seconds),
        options.time_limit,
    )


def traced_pairs(
    sampler: Sampler, options: AuditOptions, pairs: Sequence[Pair], which: str
) -> list[int]:
    """Return the numbers of the pairs that exceed the claim in a trace, worst first; `which` is the
    key of the stored numbers.
    """
    if not options.trace or len(pairs) == 1:
        return []

    def find() -> list[int]:
        request = _trace_request(options, pairs)
        found, late = first_look().worst_pairs(request)
        if late:
            sampler.note(
                f"traces of the pairs took longer than {request.limits.seconds:.2g} s: another "
                "machine may test another pair"
            )
        return list(found)

    return sampler.settled(f"traced {which}", find)


def trace_evidence(
    sampler: Sampler, options: AuditOptions, selected: Pair, head: Sequence[Pair]
) -> tuple[TraceEvidence | None, FloatArray | None]:
    """Return the evidence of traced runs on the selected pair, or on the first pair of `head` if
    that exceeds the claim more.

    The second value is the shift of the output's numbers on the selected pair, which proposes an
    event; None if there is none.
    """
    if not options.trace:
        return None, None

    def find() -> Json:
        pairs = [selected, *(pair for pair in head[:1] if pair is not selected)]
        found, note, shift = first_look().worst_evidence(_trace_request(options, pairs))
        proposed = None if shift is None or options.score_columns else shift.tolist()
        return {"evidence": found and found.to_json(), "note": note, "shift": proposed}

    stored = sampler.settled("trace", find)
    sampler.note(*filter(None, [stored["note"]]))
    evidence = stored["evidence"] and TraceEvidence.from_json(stored["evidence"])
    return evidence, None if stored["shift"] is None else np.array(stored["shift"])


def _look_size(planned: int) -> tuple[float, int]:
    """Return the share of the runs for all looks together, and the minimum number of rounds per
    pair.
    """
    return (
        (SCREEN_SHARE, 8)
        if planned >= MIN_RUNS_PER_PAIR
        else (0.4, 4)  # an audit with fewer runs finds gross violations only
    )


def _halve(
    sampler: Sampler, options: AuditOptions, pairs: Sequence[Pair], left: list[int], most: int
) -> tuple[list[int], int]:
    """Return the best `most` pairs among `left`, best first: each look keeps at least half of its
    pairs. A pair on which the mechanism fails is left out, with a note. The second value is the
    number of pairs in the first look.
    """
    outputs: dict[str, list[Outputs]] = {}  # of all looks so far, by dataset
    keys = {  # of the datasets of each pair
        k: (json.dumps(as_json["d1"]), json.dumps(as_json["d0"]))
        for k in left
        for as_json in [pairs[k].to_json()]
    }
    lost = 0.0  # seconds of looks that failed
    looks = max(1, math.ceil(math.log2(len(left) / most)))
    share, least = _look_size(sampler.planned)
    budget, compared = share * sampler.planned / looks, 0
    for look in range(looks):
        # more than 512 rounds of a pair would not change its rank
        rounds = int(min(max(budget / len(left), least), 512))
        usable: list[int] = []
        for k in sampler.within(_COMPARED, f"compared {look}", left):
            index = (look + 1) * _LOOK_SPACING + k % _LOOK_SPACING
            stage = sampler.stage(pairs[k], Phase.PILOT, index, rounds, max(rounds // 4, least))
            compared += look == 0
            began = time.monotonic()
            try:
                for found in sampler.outputs(stage, recorded=False):
                    for sides in found.sides:
                        for key, side in zip(keys[k], sides, strict=True):
                            if side is not None and len(side):
                                outputs.setdefault(key, []).append(side)
                    sampler.advance(found.rounds)
                usable.append(k)
            except MechanismFailed as error:
                lost += time.monotonic() - began
                if lost > options.time_limit:
                    raise
                sampler.note(f"pair ({pairs[k].why}) was left out: {error}")
        if not usable:
            return [], compared
        scores = _scores(
            {k: keys[k] for k in usable},
            outputs,
            {k: options.claim.on(pairs[k]).parameter for k in usable},
            options.claim.parameter,
        )
        kept = max(most, -(-len(left) // 2)) if look < looks - 1 else most
        left = sorted(usable, key=lambda k: -scores[k])[:kept]
    return left, compared


def _scores(
    keys: dict[int, tuple[str, str]],
    outputs: dict[str, list[Outputs]],
    parameters: dict[int, float],
    claimed: float,
) -> dict[int, float]:
    """Return the score of each pair, relative to the claim's parameter on the pair; the outputs are
    those of the datasets.
    """
    names = dict.fromkeys(key for both in keys.values() for key in both if key in outputs)
    batches = {key: concatenate(outputs[key]) for key in names}
    if not batches:
        return dict.fromkeys(keys, 0.0)
    width = max(batch.values.shape[1] for batch in batches.values())
    # NaN and infinities are numbers beyond all others, in the same order
    rows = {
        key: np.nan_to_num(np.clip(batch.matrix(width), -1e300, 1e300), nan=2e300)
        for key, batch in batches.items()
    }
    if width + 1 > _MAX_COLUMNS:  # those that vary most between datasets, relative to their spread
        medians, spreads = (np.array([f(m) for m in rows.values()]) for f in (_median, _spread))
        ranges = np.ptp(medians, axis=0) / np.maximum(np.median(spreads, axis=0), 1e-300)
        columns = sorted(np.argsort(-ranges, kind="stable")[:_MAX_COLUMNS].tolist())
        rows = {key: matrix[:, columns] for key, matrix in rows.items()}
    spread = np.median([_spread(matrix) for matrix in rows.values()], axis=0)
    found = {}
    for k, (one, zero) in keys.items():
        scale = claimed / parameters[k] if parameters[k] > 0 else 1.0
        found[k] = (
            scale * score(rows[one], rows[zero], spread)
            if one in rows and zero in rows
            else -math.inf
        )
    return found


def _median(matrix: FloatArray) -> FloatArray:
    return np.asarray(np.median(matrix, axis=0))


def _spread(matrix: FloatArray) -> FloatArray:
    """Return the mean absolute deviation from the median of each column."""
    return np.asarray(np.mean(np.abs(matrix - np.median(matrix, axis=0)), axis=0))


def score(one: FloatArray, zero: FloatArray, spread: FloatArray) -> float:
    """Return a score that ranks pairs by their privacy loss, from few outputs on each dataset.

    The score is the largest lower bound of a log-ratio of frequencies over half-lines and single
    values of a column, plus the distance of the medians in units of the spread, which orders pairs
    whose outputs are all apart.
    """
    ratios, (n, m) = np.zeros(one.shape[1]), (len(one), len(zero))
    both = np.concatenate([one, zero])
    labels = np.repeat([1.0, 0.0], [n, m])
    order = np.argsort(both, axis=0, kind="stable")
    values, ones = np.take_along_axis(both, order, axis=0), labels[order]
    below = np.cumsum(ones, axis=0), np.cumsum(1 - ones, axis=0)
    ends = np.vstack([values[1:] != values[:-1], np.ones((1, both.shape[1]), dtype=bool)])
    ratios = np.where(ends, _log_ratio(below[0], below[1], n, m), 0.0).max(axis=0)
    if not ends.all():
        ratios = np.maximum(ratios, [_atom_ratio(column, labels, n, m) for column in both.T])
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        distance = np.nan_to_num(
            np.abs(_median(one) - _median(zero)) / spread, nan=0.0, posinf=_MAX_DISTANCE
        )
    shrink = min(n, m) / (min(n, m) + 4.0)  # four pseudo-runs
    return float(np.max(ratios + 0.5 * shrink * np.minimum(distance, _MAX_DISTANCE)))


def _log_ratio(a: FloatArray, b: FloatArray, n: int, m: int) -> FloatArray:
    """Return lower bounds of the absolute log-ratio of the frequencies a/n and b/m, or of their
    complements, whichever is larger.

    The more runs, the more standard deviations below the estimate: from a few runs, even a large
    loss is hardly larger than chance.
    """
    # at most two: the largest of many log-ratios is chance
    deviations = min(2.0, math.log10(max(n + m, 1)))

    def bound(a: FloatArray, b: FloatArray) -> FloatArray:
        a, b = a + _PSEUDO_COUNT, b + _PSEUDO_COUNT
        ratio = np.log(a / (n + 2 * _PSEUDO_COUNT)) - np.log(b / (m + 2 * _PSEUDO_COUNT))
        return np.asarray(np.abs(ratio) - deviations * np.sqrt(1 / a + 1 / b))

    return np.maximum(bound(a, b), bound(n - a, m - b))


def _atom_ratio(column: FloatArray, labels: FloatArray, n: int, m: int) -> float:
    """Return the largest log-ratio over the values that occur at least twice; 0 if
    there are none.
    """
    _, index = np.unique(column, return_inverse=True)
    a, b = (np.bincount(index, weights=each).astype(float) for each in (labels, 1 - labels))
    often = a + b >= 2
    return float(_log_ratio(a[often], b[often], n, m).max(initial=0.0))


_MIN_LOOK_ROUNDS = 200
_FINALISTS = 5  # number of pairs in the second look, unless the first look has few rounds
# rounds per pair in the first look below which the better half has a second look, and of many pairs
# a third
_FEW_ROUNDS = 1000

Known = dict[int, Sequence[BothSides]]  # outputs of each pair


def select_pair(
    sampler: Sampler,
    options: AuditOptions,
    pairs: Sequence[ProbedPair],
    head: Sequence[int] = (),
    known: Known | None = None,
) -> tuple[ProbedPair, list[BothSides], tuple[PairScore, ...]]:
    """Return the pair on which a learned event is expected to certify the most, its pilot outputs,
    and the scores of all pairs.

    Only one pair is tested: if other pairs come close, dividing the rounds among them would cost
    more than choosing one. Pairs number `head`, which a trace points to, are compared in every
    round of the choice. Outputs that are `known` from the low-bit audit are compared too.
    """
    if len(pairs) == 1:
        return pairs[0], [], ()
    goal = int((1 - PILOT_SHARE) * sampler.planned)

    def score_pair(sides: BothSides, probed: ProbedPair) -> tuple[float, BothSides]:
        """Return the expected certificate on a pair, relative to the claim there, and the pair's
        outputs.
        """
        claim = options.claim.on(probed.pair)
        expected = expected_certificate(
            *sides, claim, alpha=options.alpha, rounds=goal, suspect=probed.index in head
        )
        # relative to the claim's parameter on this pair, which may differ between pairs
        return expected * (options.claim.parameter / claim.parameter), sides

    budget = int(PILOT_SHARE * sampler.remaining)
    phases = Phase.PILOT, Phase.SECOND_PILOT, Phase.THIRD_PILOT
    scores, outputs, _ = _rank(sampler, options, pairs, phases, budget, score_pair, head, known)
    best = next(iter(scores))
    return (
        pairs[best],
        [outputs],
        tuple(PairScore(pairs[i].pair, score, i == best) for i, score in scores.items()),
    )


def audit_low_bits(
    sampler: Sampler, options: AuditOptions, pairs: Sequence[ProbedPair]
) -> tuple[BitLevel, Known]:
    """Return the bit-level verdict on the pair with the best float-bit event: half of the budget
    trains, half tests.

    The second value holds the outputs that trained events, for pairs with few of them.
    """
    claim, rounds = options.claim.at_delta, bit_rounds(sampler.remaining, len(pairs)) // 2

    def score_pair(sides: BothSides, _: ProbedPair) -> tuple[float, Event | None]:
        """Return the expected certificate of the best float-bit event on a pair, and the event."""
        return learn_float_bits(
            *sides, claim, alpha=options.alpha, rounds=rounds, first=options.score_columns
        ) or (-math.inf, None)

    phases = Phase.BIT_TRAIN, Phase.SECOND_BIT_TRAIN, Phase.THIRD_BIT_TRAIN
    scores, event, known = _rank(sampler, options, pairs, phases, rounds, score_pair)
    if event is None:
        return BitLevel(Verdict.NOT_REFUTED, 0.0), known
    index = next(iter(scores))
    pair = pairs[index].pair
    event = sampler.fixed(Phase.BIT_TEST, index, event)
    stage = sampler.stage(pair, Phase.BIT_TEST, index, rounds, chunk_size(rounds, options.width))
    part = Part(Tally(0, 0, 0, event.directions))
    for found in sampler.counts(stage, [event]):
        part = part.plus(found.tally(event.directions), found.lost)
    sampler.check_calls(stage)
    promise = options.claim.on(pair)
    refuted = combined_bound(promise, [part], options.alpha) > promise.parameter
    verdict = Verdict.VIOLATED if refuted else Verdict.NOT_REFUTED
    lower = combined_bound(claim, [part], options.alpha)
    return BitLevel(verdict, lower, pair, event, part.tally, options.alpha, part.lost), known


def _rank(
    sampler: Sampler,
    options: AuditOptions,
    pairs: Sequence[ProbedPair],
    phases: tuple[int, int, int],
    budget: int,
    score_pair: Callable[[BothSides, ProbedPair], tuple[float, Any]],
    head: Sequence[int] = (),
    before: Known | None = None,
) -> tuple[dict[int, float], Any, Known]:
    """Compare pairs in up to three looks; return the score of each pair, best first, and the second
    value of `score_pair` on the best pair.

    The first look includes all pairs for which the budget is enough, first pairs first. The others
    take more rounds on the best pairs, whose outputs of all looks are compared, with those of an
    audit `before`. There is a third look only if there are many pairs and few rounds. The last
    value holds the outputs of all pairs if the first look had few rounds, otherwise none.
    """
    scores: dict[int, float] = {}
    known, every = dict(before or {}), dict[int, Sequence[BothSides]]()
    # 1.75 looks of a pair in the mean: half of the pairs have a second look, and a quarter a third
    room = max(SHORT_PAIRS, int(budget / (1.75 * _MIN_LOOK_ROUNDS)))
    left, found = [k for k in range(len(pairs)) if k < room or k in head], None
    few = budget / len(phases) / len(left) < _FEW_ROUNDS
    first, end = int(len(left) <= _FINALISTS), 3 if few and len(left) > 2 * _FINALISTS else 2
    # most rounds in the first look at every pair, and in later looks at the best pairs
    looks = list(zip(phases, (2**13, 2**16, 2**16), strict=True))[first:end]
    for phase, most in looks:
        # numbers in the outputs of all pairs in a look, whose ranking takes seconds
        rounds = int(
            max(
                min(
                    budget / len(looks) / len(left),
                    most,
                    TRAIN_VALUES // options.width,
                    2**24 // (options.width * len(left)),
                ),
                _MIN_LOOK_ROUNDS,
            )
        )
        finalists = max(_FINALISTS, -(-len(left) // 2)) if rounds < _FEW_ROUNDS else _FINALISTS
        best = -math.inf
        for index in sampler.within(_RANKED, f"ranked {phase}", left):
            with sampler.timing(index):
                sides = training_outputs(sampler, options, pairs[index], phase, rounds)
            known[index] = [*known.get(index, ()), sides]
            if rounds < _FEW_ROUNDS:
                every[index] = known[index]
            scores[index], here = score_pair(both_sides(known[index]), pairs[index])
            kept = sorted(scores, key=lambda i: -scores[i])[:finalists]
            known = {
                i: sides for i, sides in known.items() if i in kept or i in head or i not in scores
            }
            if scores[index] > best:
                best, found = scores[index], here
        ranked = sorted((i for i in left if i in scores), key=lambda i: -scores[i])
        left = ranked[:finalists] + [i for i in ranked[finalists:] if i in head]
    order = left + sorted(set(scores) - set(left), key=lambda i: -scores[i])
    return {i: scores[i] for i in order}, found, every


def run_probes(
    sampler: Sampler, options: AuditOptions, pairs: Sequence[Pair]
) -> tuple[AuditOptions, list[ProbedPair]]:
    """Probe the pairs for which there are enough runs; return the options that the probes
    determine, and the usable pairs.
    """
    most = min(tried_pairs(sampler.planned), sampler.most_pairs)
    # with so few runs, the best pair of the looks that does not always raise is tested: all but one
    # pair at most are left
    pairs = screen(sampler, options, pairs, most or max(1, min(SHORT_PAIRS, len(pairs) - 1)))
    options = replace(options, probe=probe_chunk(sampler.planned, len(pairs)))
    probed = probe_pairs(sampler, options, pairs, None if most else 1)
    bits = options.bits and most > 0 and any(each.floats for each in probed)
    return replace(options, bits=bits, width=max(each.width for each in probed)), probed
