"""Stages after the test: after a violation, separate tests of exceptions, of repeated values, and
of all other outputs, and a comparison of the counted runs with runs that have nothing in common;
and hints on the declaration of a domain: wider bounds where no pair changes the outputs, and
categories where outputs are texts.

**Causes.** An audit tests one event, which uses whatever tells the datasets apart best. If
exceptions or single values of positive probability suffice to violate the claim, they may hide
another fault. So this stage tests each part of the outputs on fresh rounds, with events that never
guess on the other parts. These events are events of the mechanism itself, so that each violation is
a violation of the claim. The certificate and its proof are in `statistics/certificate.py`.

The parts and their events are learned from the training outputs of the audit. The stage runs only
if the claim is violated and an event on exceptions or repeated values alone is expected to violate
the claim: other audits pay nothing.

**Independence.** A certificate counts runs that are assumed to be independent. Noise that the runs
of a call share makes the counts of few calls look like a difference between the datasets, and noise
that a process keeps makes those of all calls look so. Two comparisons precede each violation:

* between calls, of which more are made if the test had fewer than `_CALLS`;
* between the test and single runs in fresh states, that is, in new processes
  (`workers/fresh_processes`).

Both use `log_dependence`, whose evidence is valid for any counts. Strong evidence is an error.
Weaker evidence makes the audit inconclusive, which happens to a mechanism with independent runs
with probability at most 1 in `_DOUBT`.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpwitness.auditors.audit.options import AuditOptions, chunk_size, planned_seconds
from dpwitness.auditors.audit.probe import BothSides, ProbedPair, both_sides
from dpwitness.auditors.audit.sampler import Sampler, dependence_between
from dpwitness.auditors.events.event import Event, Restricted
from dpwitness.auditors.events.features import Block, Levels
from dpwitness.auditors.events.learning import Learned, learn
from dpwitness.auditors.events.outputs import Outputs, concatenate
from dpwitness.auditors.events.rules import Intervals, Threshold, WeightedScore
from dpwitness.auditors.search.catalogue import pairs_for
from dpwitness.auditors.statistics.anytime import log_dependence, mean_evidence
from dpwitness.auditors.statistics.certificate import PARTS, Tally
from dpwitness.auditors.statistics.columns import exact_values
from dpwitness.auditors.witnesses.counts import Cause
from dpwitness.auditors.workers import engine
from dpwitness.auditors.workers.chunks import Segment
from dpwitness.auditors.workers.engine import is_remote, outputs
from dpwitness.auditors.workers.fitness import check_calls
from dpwitness.auditors.workers.fresh_processes import PIECE, STATES, fresh_outputs
from dpwitness.auditors.workers.pair_exercise import difference
from dpwitness.auditors.workers.rounds import Phase
from dpwitness.core.claims import Claim
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.domains import Domain
from dpwitness.core.protocols import FloatArray, MechanismFailed
from dpwitness.core.values.validation import InvalidArgument

_DOUBT = 1000.0  # evidence from which a violation is not believed
_CALLS = 128  # calls of each dataset that show whether the runs of a call depend on each other
_CALL_ROUNDS = 128  # rounds of the two calls of a chunk
# time for more calls, and again for fresh states: the larger of this and of this share of the
# audit's time, but at most this share of what a time budget leaves after its plan
_SECONDS, _SHARE, _RESERVED = 0.5, 0.03, 0.4
# modules of mechanisms that keep nothing between runs
_REFERENCE = ("dpwitness.mechanisms.textbook.", "dpwitness.mechanisms.papers.")


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """Event that certifies a violation, and its counts."""

    pair: Pair
    index: int
    event: Event
    tally: Tally
    lost: int = 0
    cells: tuple[tuple[int, ...], ...] = ()  # of a binned event: counts on D1 and on D0

    def groups(self, sides: Sequence[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
        """Return the tables for `log_dependence`: the counts of the test first, then those of
        groups of runs (2, cells).
        """
        if self.cells:
            return [
                np.array([self.cells[side], *(group[side] for group in sides)]) for side in (0, 1)
            ]
        counts = [(self.tally.rounds - self.lost, self.tally.correct, self.tally.wrong - self.lost)]
        for table in sides:
            right, wrong = table[0, 1] + table[1, 2], table[0, 2] + table[1, 1]
            counts.append((int(table.sum()), int(right), int(wrong)))
        return [np.array([[runs - right - wrong, right, wrong] for runs, right, wrong in counts])]


def require_independent(sampler: Sampler, counted: Sequence[Counted]) -> str:
    """Compare the runs of each violation with more calls and with fresh states.

    Raise Unfit if they differ. Return the reason if a violation should not be believed; an empty
    text if it should.
    """
    if not counted or type(getattr(sampler.run, "__self__", None)).__module__.startswith(
        _REFERENCE
    ):
        return ""
    seconds, budget = max(_SECONDS, _SHARE * sampler.elapsed), sampler.request.seconds
    if budget is not None:
        seconds = min(seconds, _RESERVED * (budget - planned_seconds(budget)))
    logs = list(sampler.dependence)
    by_pair: dict[int, list[Counted]] = {}
    for each in counted:
        by_pair.setdefault(id(each.pair), []).append(each)
    for violations in by_pair.values():
        logs.append(_between_calls(sampler, violations, seconds))
        check_calls(logs)
        if not is_remote(sampler.executor):
            logs.append(_against_fresh_states(sampler, violations, seconds))
            check_calls(logs)
    evidence = check_calls(logs)
    if evidence < math.log(_DOUBT):
        return ""
    return (
        f"runs may depend on each other (evidence {math.exp(evidence):.3g}): counts vary "
        "between calls, or between processes, "
        "so that the violation is not certified; run the audit again with more trials"
    )


def _seconds_of(sampler: Sampler, rounds: int) -> float:
    """Return the expected duration of some rounds, in seconds of the audit's clock."""
    spent = sampler.spent / max(sampler.done, 1) * rounds if sampler.request.clock == "cpu" else 0.0
    return max(sampler.pace.expected(rounds), spent)


def _between_calls(sampler: Sampler, counted: Sequence[Counted], seconds: float) -> float:
    """Return the log-evidence that the runs of a call depend on each other, from as many calls as
    the time allows.
    """
    calls = min(_CALLS, int(seconds / max(_seconds_of(sampler, _CALL_ROUNDS), 1e-9)))
    if calls < 2 or max(map(len, sampler.calls.values()), default=0) >= _CALLS:
        return 0.0
    stage = sampler.stage(
        counted[0].pair, Phase.MORE_CALLS, counted[0].index, calls * _CALL_ROUNDS, _CALL_ROUNDS
    )
    events = [each.event for each in counted]
    segments = engine.counts(stage, events, sampler.executor, sampler.pace)
    return dependence_between([found.tables for found in segments])


def _against_fresh_states(sampler: Sampler, counted: Sequence[Counted], seconds: float) -> float:
    """Return the log-evidence that fresh states have other frequencies of guesses than the test, or
    than each other.
    """
    # runs are made one at a time: each has the start of a batch of one dataset
    run_seconds = _seconds_of(sampler, 1) + (sampler.cost.start / 2 if sampler.cost else 0.0)
    pieces = int(min(seconds / max(PIECE * run_seconds, 1e-9), STATES * 64 // PIECE))
    states = min(STATES, max(2, pieces))
    runs = PIECE * max(1, pieces // states)  # in each fresh state
    stage = replace(
        sampler.stage(counted[0].pair, Phase.FRESH, counted[0].index, states * runs, runs),
        chunk=runs,
    )
    found = sampler.call(
        fresh_outputs, stage, seconds, limit=4 * sampler.request.time_limit + 10 * seconds
    )
    if not found:
        return 0.0
    tables = [
        [np.array([each.event.tabulate(side) for side in sides]) for sides in found]
        for each in counted
    ]
    return mean_evidence(
        [log_dependence(*each.groups(groups)) for each, groups in zip(counted, tables, strict=True)]
    )


_EXTRA_SHARE = 0.2  # runs of this stage beyond the plan, at most, as a share of the plan
_MAX_SHOWN = 3  # values named in the description of a part
_EVERYTHING = Intervals(0, np.empty(0), np.ones(1), 1)  # guesses D1 on every output


@dataclass(frozen=True, slots=True, eq=False)
class OutputPart:
    """Part of the outputs: `region` guesses D1 on every output that is in this part or in a later
    one; None if these are all outputs.
    """

    kind: str
    words: str
    codes: FloatArray
    mask: Event | None = None
    inside: bool = True
    region: Restricted | None = None

    def restricted(self, event: Event, side: int = 0) -> Restricted:
        """Return the rule that guesses as `event` on this part and abstains on all
        other outputs.
        """
        return Restricted(event, self.codes, self.mask, self.inside, side)

    def outputs_in(self, sides: BothSides) -> BothSides:
        """Return the outputs that are in this part."""
        within = self.restricted(_EVERYTHING)
        one, zero = (side.take(np.flatnonzero(within.guess(side))) for side in sides)
        return one, zero


def separate_causes(
    sampler: Sampler, options: AuditOptions, probed: ProbedPair, outputs: Sequence[BothSides]
) -> tuple[Cause, ...]:
    """Test the parts of the outputs of a pair, given its training outputs; return no cause if there
    is nothing to separate.

    The stage makes as many runs as the audit so far, if the plan has as many left, and at least a
    fifth of the plan. Both the runs and the events are stored, so that a sequential audit that is
    continued tests them once.
    """
    sides = both_sides(outputs)
    parts = divide(sides, options.score_columns)
    if len(parts) < 2:
        return ()
    rounds = sampler.settled("rounds of causes", lambda: _affordable(sampler, options))
    if rounds == 0:
        sampler.note("no time was left to test the parts of the outputs separately")
        return ()
    causes = sampler.settled(
        "causes", lambda: [cause.to_json() for cause in _learn(options, parts, sides, rounds)]
    )
    return (
        _count(
            sampler, options, probed, [Cause.from_json(cause) for cause in causes], parts, rounds
        )
        if causes
        else ()
    )


def _affordable(sampler: Sampler, options: AuditOptions) -> int:
    """Return the number of runs for the stage: what is left of a time budget, if there is one. A
    sequential audit has no plan, and may end after a few runs.
    """
    if options.find is None:
        wanted = min(sampler.done, max(sampler.remaining, _EXTRA_SHARE * sampler.planned))
        if options.seconds is not None:
            left = max(options.seconds - sampler.spent, 0.0)
            wanted = min(wanted, left * sampler.done / max(sampler.spent, 1e-9))
        return int(wanted)
    # at least 4,000 runs after a sequential audit that ends earlier, if its limits allow for them
    wanted = max(sampler.done, min(4_000, options.trials - sampler.done))
    if options.seconds is None:
        return wanted
    left = max(options.seconds - sampler.spent, _EXTRA_SHARE * options.seconds)
    return int(min(wanted, left * sampler.done / max(sampler.spent, 1e-9)))


def divide(sides: BothSides, first: int = 0) -> list[OutputPart]:
    """Return the parts of the outputs, in the order in which they are tested: exceptions, repeated
    values, values.

    Values repeat if they are exact values of a column that holds other numbers too. The first
    columns, before number `first`, are scores.
    """
    both = concatenate(sides)
    codes = np.unique(both.codes)
    raised = np.array(
        [both.names[code].startswith("raises ") for code in codes.tolist()], dtype=np.bool_
    )
    names = sorted({both.names[code].partition(" with (")[0] for code in codes[raised].tolist()})
    parts = (
        [OutputPart("exceptions", ", ".join(names[:_MAX_SHOWN]), codes[raised])] if names else []
    )
    returned = codes[~raised]
    if not len(returned):
        return parts
    region = Restricted(_EVERYTHING, returned) if parts else None
    mask = _repeated_values(both.take(np.flatnonzero(np.isin(both.codes, returned))), first)
    if mask is None:
        return [*parts, OutputPart("values", "", returned, region=region)]
    event, words = mask
    others = Restricted(_EVERYTHING, returned, event, inside=False)
    return [
        *parts,
        OutputPart("repeated values", words, returned, event, region=region),
        OutputPart("values", "", returned, event, inside=False, region=others),
    ]


def _repeated_values(outputs: Outputs, first: int) -> tuple[Event, str] | None:
    """Return a rule that guesses on outputs with a repeated value, and a description of the values;
    None if they are not a part.
    """
    blocks, words = list[tuple[Block, FloatArray]](), list[str]()
    columns = [
        column
        for column in range(first, outputs.values.shape[1])
        if not np.isnan(outputs.values[:, column]).all()
    ]
    for column in columns:
        numbers = outputs.values[:, column]
        keys, is_complete = exact_values(numbers)
        # NaN counts as infinity, and infinity as a repeated value
        infinite = np.where(np.isnan(numbers), np.inf, numbers)[~np.isfinite(numbers)]
        keys = np.union1d(keys, np.unique(infinite))
        if len(keys) and not is_complete:  # the column holds other numbers too
            blocks.append((Levels(column + 1, keys), np.ones(len(keys))))
            prefix = f"output {column} = " if len(columns) > 1 else ""
            names = outputs.names | {np.inf: "inf or missing"}
            words += [prefix + names.get(key, f"{key:g}") for key in keys.tolist()]
    if not blocks:
        return None
    event = Threshold(WeightedScore(outputs.values.shape[1], tuple(blocks)), -np.inf, 0.5)
    # repeated values are no part if they occur in all but 1 % of the outputs
    if np.count_nonzero(event.guess(outputs) == 0) < 0.01 * len(outputs):
        return None
    more = f" and {len(words) - _MAX_SHOWN} more" if len(words) > _MAX_SHOWN else ""
    return event, ", ".join(words[:_MAX_SHOWN]) + more


def _learn(
    options: AuditOptions, parts: Sequence[OutputPart], sides: BothSides, rounds: int
) -> list[Cause]:
    """Return a cause with an event for each part; nothing unless a part before the values is
    expected to violate the claim.
    """
    claim, alpha = options.claim, options.alpha / PARTS
    *early, last = parts
    learned = [_learn_part(part, sides, claim, alpha, rounds) for part in early]
    if all(each.expected <= claim.parameter for each in learned):
        return []
    causes = [
        _with_best_side(part, each.event, sides, claim, alpha)
        for part, each in zip(early, learned, strict=True)
    ]
    # as many outputs of both datasets: the event of the values is one of the conditional law
    one, zero = last.outputs_in(sides)
    size, total = min(len(one), len(zero)), sum(map(len, sides))
    if size < 20:
        words = f"too few outputs on D{int(len(one) < len(zero))} to compare"
        return [*causes, Cause(last.kind, words, alpha=alpha)]
    share = rounds * (len(one) + len(zero)) // total
    ones, zeros = (side.take(np.arange(size)) for side in (one, zero))
    event = learn(ones, zeros, claim, alpha=alpha, rounds=share).event
    return [*causes, _with_best_side(last, event, sides, claim, alpha)]


def _learn_part(
    part: OutputPart, sides: BothSides, claim: Claim, alpha: float, rounds: int
) -> Learned:
    """Return the event on one part before the values that is expected to certify most."""
    one, zero = part.outputs_in(sides)
    others = (sum(map(len, sides)) - len(one) - len(zero)) // 2
    forms = [(one, zero)]
    if part.kind == "exceptions":
        forms.append((_structures(one), _structures(zero)))
    found = [
        learn(_padded(ones, others), _padded(zeros, others), claim, alpha=alpha, rounds=rounds)
        for ones, zeros in forms
    ]
    return max(found, key=lambda each: each.expected)


def _with_best_side(
    part: OutputPart, event: Event, sides: BothSides, claim: Claim, alpha: float
) -> Cause:
    """Return the cause whose event guesses both datasets, or one of them, whichever certifies more
    on the training outputs: if the part is rarer on one dataset, guesses of this dataset need no
    discount.
    """
    region = None if part.region is None else _tables([part.region], sides)[0]

    def bound(rule: Restricted) -> float:
        cause = Cause(part.kind, part.words, alpha=alpha, event=rule)
        return _counted(cause, _tables([rule], sides)[0], region, 0).judged(claim).lower

    # of equal bounds, the first
    best = max((part.restricted(event, side) for side in (0, 1, -1)), key=bound)
    return Cause(part.kind, part.words, alpha=alpha, event=best)


def _structures(outputs: Outputs) -> Outputs:
    """Return the outputs without their numbers, such as those in the message of an exception."""
    return replace(outputs, values=np.empty((len(outputs), 0)), texts={}, signs=0)


def _padded(outputs: Outputs, count: int) -> Outputs:
    """Return the outputs of a part with `count` copies of one symbol, which represents the outputs
    of other parts on both datasets alike.

    A part may be so rare that all its training outputs are from one dataset. The copies keep its
    frequency, and the share of D1.
    """
    others = Outputs(
        np.full((count, outputs.values.shape[1]), np.nan), np.zeros(count), {0.0: "other outputs"}
    )
    return concatenate([outputs, others])


def _tables(rules: Sequence[Event], sides: BothSides) -> NDArray[np.int64]:
    """Return the counts (abstain, D1, D0) of each rule on the outputs of D1 and of D0."""
    return np.array([[rule.tabulate(side) for side in sides] for rule in rules])


def _counted(
    cause: Cause, table: NDArray[np.int64], region: NDArray[np.int64] | None, lost: int
) -> Cause:
    """Return the cause with the counts of its event, and of the region in which it is tested."""
    assert cause.event is not None
    tally = Segment([table], lost=lost).tally(cause.event.directions)
    within = None if region is None else (int(region[0, 1]), int(region[1, 1]))
    return replace(cause, tally=tally, lost=lost, within=within)


def _count(
    sampler: Sampler,
    options: AuditOptions,
    probed: ProbedPair,
    causes: Sequence[Cause],
    parts: Sequence[OutputPart],
    rounds: int,
) -> tuple[Cause, ...]:
    """Count the events of all causes in the same fresh rounds, and return the causes with bounds
    and verdicts.
    """
    stage = sampler.stage(
        probed.pair, Phase.CAUSES, probed.index, rounds, chunk_size(rounds, options.width)
    )
    tested = [cause.event for cause in causes if cause.event is not None]
    regions = [part.region or _EVERYTHING for part in parts]
    tables, lost, planned = (
        np.zeros((len(tested) + len(regions), 2, 3), dtype=np.int64),
        0,
        sampler.planned,
    )
    sampler.planned = max(planned, sampler.done + rounds)  # for the progress
    for found in sampler.counts(stage, [*tested, *regions]):
        tables += np.array(found.tables)
        lost += found.lost
    sampler.planned = planned if options.find is None else sampler.done
    sampler.check_calls(stage)
    counted = iter(tables)
    return tuple(
        _counted(cause, next(counted), None if part.region is None else region, lost).judged(
            options.claim
        )
        if cause.event
        else cause
        for cause, part, region in zip(causes, parts, tables[len(tested) :], strict=True)
    )


_WIDER_PAIRS, _WIDER_ROUNDS, _WIDER_LEVEL = 6, 400, 1e-6


def suggest_wider_domain(sampler: Sampler, domain: Domain) -> None:
    """Add a note if wider bounds of a domain change the outputs, although no pair in the declared
    domain does.

    Pairs outside the declared domain cannot refute the claim.
    """
    runs = 0
    for wide, text in _wider_domains(domain):
        for number, pair in enumerate(pairs_for(wide)[:_WIDER_PAIRS]):
            if sampler.overdue(0.0):
                return
            # a phase number above those of all extensions
            stage = sampler.stage(pair, 1_000_000, number, _WIDER_ROUNDS, _WIDER_ROUNDS)
            runs += _WIDER_ROUNDS
            try:
                sides = [side for found in outputs(stage, sampler.executor) for side in found.sides]
            except (MechanismFailed, InvalidArgument):
                continue
            if any(
                one is not None and zero is not None and difference(one, zero) < _WIDER_LEVEL
                for one, zero in sides
            ):
                sampler.note(
                    f"no pair of {_domain_text(domain)} changes the outputs; {text} do "
                    f"({runs:,} more runs): declare the domain as "
                    f"{_domain_text(wide)} if such data can occur; pairs outside of the "
                    "declared domain cannot refute the claim"
                )
                return


def suggest_categories(
    sampler: Sampler, domain: Domain, known: Sequence[tuple[Outputs, Outputs]]
) -> None:
    """Add a note if outputs contain texts although the domain has integers: the integers may be
    labels, of which a rare one matters.
    """
    integer, categories = getattr(domain, "integer", False), getattr(domain, "categories", False)
    if not integer or categories or not any(side.texts for sides in known for side in sides):
        return
    how = '"categories": true' if integer is True else f'"categories": {list(integer)}'
    sampler.note(
        "outputs contain texts, and the domain has integers: if the integers are labels "
        f"without an order, add {how} to the domain, "
        "so that pairs with rare labels are tried"
    )


def _wider_domains(domain: Domain) -> Iterator[tuple[Domain, str]]:
    """Yield versions of the domain with wider bounds, and a description of the new data."""
    if not dataclasses.is_dataclass(domain):
        return
    given: Any = domain
    for factor, down in itertools.product((10.0, 100.0, 10_000.0), (False, True)):
        changes, text = _wider_bounds(domain, factor, down)
        for change in changes:
            with suppress(InvalidArgument, TypeError, ValueError):
                wide = replace(given, **change)
                yield wide, text + (" (whole numbers)" if change.get("integer") else "")


def _wider_bounds(domain: Domain, factor: float, down: bool) -> tuple[list[dict[str, Any]], str]:
    """Return changes of the fields of a domain that widen its bounds, and a description of the new
    data; no changes for a domain without bounds.
    """
    low, high = getattr(domain, "low", None), getattr(domain, "high", None)
    if isinstance(low, int | float) and isinstance(high, int | float):
        ends = _widen_interval(low, high, factor, down)
        change: dict[str, Any] = {"low": ends[0], "high": ends[1]}
        text = f"values down to {ends[0]:g}" if down else f"values up to {ends[1]:g}"
        whole = getattr(domain, "integer", None) is False
        return [change, *([change | {"integer": True}] if whole else [])], text
    features = getattr(domain, "features", None) or ()
    wider = tuple(_widen_interval(low, high, factor, down) for low, high in features)
    return [{"features": wider}] if wider else [], f"features with bounds {factor:g} times as wide"


def _widen_interval(low: float, high: float, factor: float, down: bool) -> tuple[float, float]:
    """Return the interval with its upper (or lower, if `down`) end moved by `factor` times its
    length.
    """
    more = (high - low) * factor
    ends = (low - more if down else low, high if down else low + more)
    whole = isinstance(low, int) and isinstance(high, int)
    return (int(ends[0]), int(ends[1])) if whole else ends


def _domain_text(domain: Domain) -> str:
    """Return a text of the domain with its bounds, without other fields at their default."""
    given: Any = domain
    values = {
        field.name: (getattr(domain, field.name), field.default)
        for field in dataclasses.fields(given)
    }
    text = [
        f"{name}={value!r}"
        for name, (value, default) in values.items()
        if value != default or name in ("low", "high")
    ]
    return f"{type(domain).__name__}({', '.join(text)})"
