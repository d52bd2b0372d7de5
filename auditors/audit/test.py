"""Stage 4 of an audit, the test: counts of an event on fresh rounds, with interim looks, and
extensions of a test.

A **sequential test** has epochs of rounds, each with an event learned from all earlier rounds,
until a violation is certified or excluded. Its certificate is that of `anytime`: it holds at every
moment, so that a test may stop for any reason, and a stored test goes on where it stopped. Epoch k
begins after `FIRST_EPOCH` * `GROWTH`^k rounds, which depends on nothing, and so a longer test
repeats the rounds of a shorter one.
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_left
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpwitness.auditors.audit.options import (
    LOOK_SHARES,
    TRAIN_ROUNDS,
    TRAIN_VALUES,
    AuditOptions,
    chunk_size,
)
from dpwitness.auditors.audit.probe import (
    BothSides,
    ProbedPair,
    TrainedPair,
    both_sides,
    complete_sides,
    repeat_probe,
    train,
    training_outputs,
)
from dpwitness.auditors.audit.sampler import Sampler
from dpwitness.auditors.events.event import (
    Binned,
    Event,
    EventHistogram,
    picture,
    renyi_lower_bound,
)
from dpwitness.auditors.events.learning import Learned, learn
from dpwitness.auditors.events.posterior import ScoreLaw, detectable
from dpwitness.auditors.events.rule_reader import columns_of, read_event
from dpwitness.auditors.statistics.anytime import (
    epoch_weight,
    equivalent_level,
    is_refuted,
    shown_at_most,
)
from dpwitness.auditors.statistics.certificate import Part, Prior, Tally
from dpwitness.auditors.statistics.combination import extension_share, reweight_for_extension
from dpwitness.auditors.witnesses.counts import Basis
from dpwitness.auditors.workers.chunks import Segment
from dpwitness.auditors.workers.fitness import check_training
from dpwitness.auditors.workers.rounds import Phase, Stage
from dpwitness.core.claims import Claim
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.values.json_codec import from_jsonable, to_jsonable
from dpwitness.core.values.json_reader import Json

_BINNED_SUFFIX = ", binned law"  # suffix of a method's name
PICTURE_ROUNDS = 2**14  # rounds of a test whose outputs are shown in its picture
# numeric and text fields of `EventTest`
_PLAIN_FIELDS = ("alpha", "planned", "method", "lower", "p_value", "epsilon", "stopped")


@dataclass(frozen=True, slots=True)
class EventTest:
    """Test on pair number `index`: its latest event, and the counts of all its stages so far, the
    current stage last.
    """

    pair: Pair
    index: int
    alpha: float
    planned: int  # number of rounds of all stages of the test
    event: Event
    method: str
    parts: tuple[Part, ...] = ()
    lower: float = 0.0
    p_value: float = 1.0
    epsilon: float = 0.0
    basis: Basis | None = None  # counts from which `lower` and `epsilon` are computed
    law: ScoreLaw | None = None
    looks: tuple[tuple[int, float], ...] = ()  # number of runs, and certified bound, at each look
    picture: EventHistogram | None = None
    stopped: bool = False  # whether a look stopped the test early

    @property
    def sequential(self) -> bool:
        """Whether the test may stop at any moment."""
        return bool(self.parts) and self.parts[-1].prior is not None

    @property
    def tally(self) -> Tally:
        """Counts of the current stage."""
        return self.parts[-1].tally if self.parts else Tally(0, 0, 0, self.event.directions)

    def counted(self, found: Segment) -> EventTest:
        """Return the test with the counts of a segment of the current stage."""
        *earlier, part = self.parts
        part = part.plus(found.tally(self.event.directions), found.lost)
        return replace(self, parts=(*earlier, part))

    def pictured(self, sides: Sequence[BothSides]) -> EventTest:
        """Return the test with the picture of its outputs, if any are known."""
        return replace(self, picture=picture(self.event, both_sides(sides))) if sides else self

    def look(self, claim: Claim, alpha: float, error: float, done: int) -> EventTest:
        """Return the test after an interim look with its share `alpha` of the audit's error, after
        `done` runs.
        """
        basis = Basis(alpha, self.parts)
        lower, epsilon = basis.bounds(claim, self.event)
        test = self
        if self.basis is None or (lower, epsilon) >= (self.lower, self.epsilon):
            test = replace(
                self, lower=lower, epsilon=epsilon, basis=basis, p_value=basis.p_value(claim, error)
            )
        return replace(test, looks=(*self.looks, (done, test.lower)))

    def to_json(self, place: int) -> Json:
        """Return the test as JSON; `place` is the index of its pair in the list of all pairs."""
        law, histogram = self.law, self.picture
        return {
            **{name: to_jsonable(getattr(self, name)) for name in _PLAIN_FIELDS},
            "pair": place,
            "event": self.event.to_json(),
            "parts": [
                [list(dataclasses.astuple(part.tally)), part.weight, part.lost]
                for part in self.parts
            ],
            "looks": [[runs, to_jsonable(bound)] for runs, bound in self.looks],
            "basis": self.basis and self.basis.to_json(),
            "law": law and [to_jsonable(law.mass), to_jsonable(law.loss), law.size],
            "picture": histogram
            and {
                field.name: to_jsonable(getattr(histogram, field.name))
                for field in dataclasses.fields(histogram)
            },
        }

    @classmethod
    def from_json(cls, data: Json, pairs: Sequence[Pair], index: int) -> EventTest:
        """Return the test that `to_json` wrote."""
        plain: dict[str, Any] = {name: from_jsonable(data[name]) for name in _PLAIN_FIELDS}
        histogram = data["picture"]
        return cls(
            pair=pairs[data["pair"]],
            index=index,
            event=read_event(data["event"]),
            parts=tuple(Part(Tally(*tally), weight, lost) for tally, weight, lost in data["parts"]),
            basis=data["basis"] and Basis.from_json(data["basis"]),
            looks=tuple((runs, from_jsonable(bound)) for runs, bound in data["looks"]),
            law=_read_law(data["law"]),
            picture=None
            if histogram is None
            else EventHistogram(
                **{name: from_jsonable(value) for name, value in histogram.items()}
            ),
            **plain,
        )


def _read_law(data: Sequence[Any] | None) -> ScoreLaw | None:
    """Return the law of scores that was stored as its masses, its losses and its size."""
    return (
        None
        if data is None
        else ScoreLaw(
            np.asarray(from_jsonable(data[0])), np.asarray(from_jsonable(data[1])), data[2]
        )
    )


def run_test(
    sampler: Sampler, options: AuditOptions, probed: ProbedPair, training: TrainedPair
) -> Iterator[EventTest]:
    """Test the trained event, and a better event if the first test trains one. One certificate
    combines both tests (`combination`).

    Yields the test after each change, so that an interrupted audit has its counts.
    """
    learned, rounds = training.learned, training.rounds
    test = EventTest(
        probed.pair, probed.index, options.alpha, rounds, learned.event, learned.method
    )
    yield test
    if first := training.first_test:
        stage = sampler.stage(
            test.pair, Phase.FIRST_TEST, test.index, first, chunk_size(first, options.width)
        )
        test, kept = yield from _count(
            sampler, options, test, stage, learned, training.looks, training.weight
        )
        rounds -= first
        if kept and not sampler.overdue(0.0):
            learned = training.better_event(options, kept)
    if not test.stopped:
        stage = sampler.stage(
            test.pair, Phase.TEST, test.index, rounds, chunk_size(rounds, options.width)
        )
        yield from _count(sampler, options, test, stage, learned, LOOK_SHARES)
    repeat_probe(sampler, probed)


def begin_test(
    sampler: Sampler, options: AuditOptions, probed: ProbedPair, outputs: Sequence[BothSides]
) -> tuple[Iterator[EventTest], Sequence[BothSides]]:
    """Return the test of a pair, sequential or with a fixed plan, and the outputs that train its
    events; `outputs` are known already.
    """
    if options.find is not None:
        test = SequentialTest(sampler, options, probed, outputs or [probed.probe.sides])
        return test.run(), test.training_sides
    training = train(sampler, options, probed, outputs)
    return run_test(sampler, options, probed, training), training.outputs


def extend(
    sampler: Sampler,
    options: AuditOptions,
    probed: ProbedPair,
    test: EventTest,
    number: int,
    total: int,
) -> Iterator[EventTest]:
    """Run extension `number`, up to `total` runs: test the event of the earlier stages on a stage
    of fresh rounds.

    The user who requests an extension has seen the earlier result. The weight of the stage and its
    share of alpha are fixed by rule (`combination`), so neither the reason nor the length of the
    extension matters.
    """
    before, event, rounds = test, single_event(test.event), total - sampler.done
    binned = test.event if isinstance(test.event, Binned) else None
    learned = Learned(event, 0.0, test.method.removesuffix(_BINNED_SUFFIX), binned, test.law)
    sampler.planned = total
    stage = sampler.stage(
        test.pair,
        Phase.EXTENSION + number - 1,
        test.index,
        rounds,
        chunk_size(rounds, columns_of(event)),
    )
    test = replace(
        test,
        planned=total,
        alpha=options.alpha * extension_share(number),
        parts=tuple(reweight_for_extension(test.parts)),
    )
    test, _ = yield from _count(sampler, options, test, stage, learned, LOOK_SHARES)
    # the bound has not improved, so it still belongs to the previous event
    if test.basis is before.basis:
        yield replace(test, event=before.event, method=before.method)
    repeat_probe(sampler, probed)


def single_event(event: Event) -> Event:
    """Return the event itself, or the middle event of a binned event."""
    return event.events[len(event.events) // 2] if isinstance(event, Binned) else event


def _count(
    sampler: Sampler,
    options: AuditOptions,
    test: EventTest,
    stage: Stage,
    learned: Learned,
    spent: dict[float, float],
    weight: float = 1.0,
) -> Generator[EventTest, None, tuple[EventTest, list[BothSides]]]:
    """Count an event in the rounds of a stage, with interim looks; `spent` maps shares of the stage
    to shares of alpha.

    `weight` is the weight of the stage in the combined certificate. In `Phase.FIRST_TEST` all
    outputs are returned, to train the next event, unless a look stopped the test. A Renyi rule
    (RDP, zCDP) is tested at the end with half of alpha.
    """
    _, index, phase = stage.key
    event = sampler.fixed(phase, index, learned.event)
    binned = sampler.fixed(phase, index, learned.binned) if learned.binned else None
    assert binned is None or isinstance(binned, Binned)
    parts = (*test.parts, Part(Tally(0, 0, 0, event.directions), weight))
    test = replace(test, event=event, method=learned.method, law=learned.law, parts=parts)
    yield test
    kept: list[BothSides] = []
    cells = np.zeros((2, len(binned.loss) if binned else 0), dtype=np.int64)
    share, parameter = test.alpha * (0.5 if binned else 1.0), options.claim.parameter
    # a bound above this one ends the test
    enough = {"violation": parameter, "gross": gross_bound(parameter), "never": np.inf}
    looks = {max(1, round(look * stage.segments)): share * part for look, part in spent.items()}
    pictured = PICTURE_ROUNDS if phase != Phase.FIRST_TEST else stage.rounds
    segments = sampler.counts(stage, [event, binned] if binned else [event], pictured)
    for number, found in enumerate(segments, start=1):
        test = test.counted(found)
        yield test
        if binned:
            cells += found.tables[1]
        kept += complete_sides(found)
        if number in looks:
            test = test.look(options.claim, looks[number], options.alpha, sampler.done)
            yield test
            sampler.show_bound(options.claim.symbol, test.lower)
            if test.lower > enough[options.stop]:
                sampler.pace.stopped, test = True, replace(test, stopped=True)
                break
        if sampler.overdue() and number < stage.segments:
            # the clock decides, not the counts: the error of the last look is spent on those so far
            test = test.look(options.claim, share * LOOK_SHARES[1.0], options.alpha, sampler.done)
            counted = sum(part.tally.rounds for part in test.parts)
            sampler.pace.stopped, test = True, replace(test, stopped=True, planned=counted)
            sampler.note(
                "the time was over before the planned runs, so no number of trials gives the same "
                "counts"
            )
            break
    lost = test.parts[-1].lost
    if binned and not test.stopped and not lost:  # cell counts cannot account for lost rounds
        test = _with_renyi_rule(options, test, binned, cells, sampler.done)
    if lost:
        sampler.note(
            f"a batch raised for the first time in the test: its {lost} rounds count as "
            "wrong guesses, later rounds were run singly"
        )
    sampler.check_calls(stage)
    test = test.pictured(kept[: max(1, PICTURE_ROUNDS // stage.chunk)])
    yield test
    return test, [] if test.stopped else kept


def _with_renyi_rule(
    options: AuditOptions, test: EventTest, binned: Binned, cells: NDArray[np.int64], done: int
) -> EventTest:
    """Return the test after `done` runs, with the bound that the Renyi rule certifies from the
    cells of a binned event, if that bound is larger.
    """
    claim, alpha = options.claim, test.alpha / 2
    lower = renyi_lower_bound(claim, binned, cells, alpha)
    levels = np.geomspace(1e-30, 1.0, 200)
    # the bound increases with the level
    least = bisect_left(
        levels,
        True,
        key=lambda level: renyi_lower_bound(claim, binned, cells, level) > claim.parameter,
    )
    level = levels[least] if least < len(levels) else 1.0
    looked = replace(
        test,
        p_value=min(test.p_value, level * options.alpha / alpha),
        looks=(*test.looks, (done, max(lower, test.lower))),
    )
    if lower <= test.lower or test.basis is None:
        return looked
    # the Renyi rule replaces the event; it guesses in more directions than an event of its own
    # that was counted
    *earlier, part = test.parts
    parts = (*earlier, replace(part, tally=replace(part.tally, directions=binned.directions)))
    by_side = tuple(tuple(side) for side in cells.tolist())
    return replace(
        looked,
        lower=lower,
        event=binned,
        method=test.method + _BINNED_SUFFIX,
        parts=parts,
        basis=replace(test.basis, parts=parts, cells=by_side, cells_alpha=alpha),
    )


def gross_bound(parameter: float) -> float:
    """Return the bound beyond which a violation of a claim with this parameter is gross."""
    return 3 * parameter + 2


FIRST_EPOCH = 64  # rounds that train the first event
GROWTH = 4  # factor between the rounds before an epoch and before the next


class SequentialTest:
    """State of a sequential test on one pair: its epochs so far, and the outputs from which the
    next event is learned. An epoch is a block of rounds in which one event is counted.
    """

    def __init__(
        self,
        sampler: Sampler,
        options: AuditOptions,
        probed: ProbedPair,
        known: Sequence[BothSides],
    ) -> None:
        self.sampler, self.options, self.probed = sampler, options, probed
        self.training_sides = list(known)
        self.trained = 0  # rounds from which the latest event was learned
        self.checked = 0  # rounds of the epoch at the last check of what the event can show
        self.learned: Learned | None = None
        self.most_trained = min(TRAIN_ROUNDS, TRAIN_VALUES // options.width)

    @property
    def rows(self) -> int:
        """Number of outputs from which the next event would be learned."""
        return sum(len(one) + len(zero) for one, zero in self.training_sides)

    def run(self, start: EventTest | None = None, trained: int = 0) -> Iterator[EventTest]:
        """Yield the test after each change, until it is settled, or its runs or its time are used
        up.

        `start` is a test to continue, whose event was learned from `trained` outputs that are no
        longer available.
        """
        if start is None and self.rows < FIRST_EPOCH:
            self.training_sides.append(
                training_outputs(
                    self.sampler, self.options, self.probed, Phase.TRAIN, FIRST_EPOCH - self.rows
                )
            )
        test, self.trained, number, before = (
            start,
            trained,
            0,
            0 if start else max(self.rows, FIRST_EPOCH),
        )
        while test is None or not test.stopped:
            rounds = (GROWTH - 1) * before if before else GROWTH * trained
            test = self._begin(number, rounds, test)
            yield test
            for test in self._count(number, rounds, test):  # noqa: B020
                yield test
            number, before = number + 1, before + rounds
        repeat_probe(self.sampler, self.probed)
        self.sampler.planned = self.sampler.done

    def _begin(self, number: int, rounds: int, test: EventTest | None) -> EventTest:
        """Return the test with a new epoch, whose event is learned from all rounds so far while
        these are few enough.
        """
        rows = self.rows
        if test is not None and rows <= self.trained:
            return test
        plan = self.sampler.settled(f"epoch {number}", lambda: self._learn(rows, rounds))
        event, method = read_event(plan["event"]), plan["method"]
        part = Part(Tally(0, 0, 0, event.directions), 0.0, 0, Prior(*plan["prior"]))
        self.trained, self.checked = rows, 0
        law = _read_law(plan["law"])
        if test is None:
            return EventTest(
                self.probed.pair,
                self.probed.index,
                self.options.alpha,
                0,
                event,
                method,
                (part,),
                law=law,
            )
        return replace(test, event=event, method=method, law=law, parts=(*test.parts, part))

    def _learn(self, rows: int, rounds: int) -> Json:
        """Learn the next event; return its rule, and its expected counts as the prior."""
        options, sides = self.options, both_sides(self.training_sides)
        level = equivalent_level(options.alpha)
        self.learned = learn(
            *sides,
            options.claim,
            alpha=level,
            rounds=rounds,
            shift=options.shift,
            earlier=self.learned,
        )
        rates, law = self.learned.rates, self.learned.law
        return {
            "event": self.learned.event.to_json(),
            "method": self.learned.method,
            "prior": [*(min(max(float(rate), 0.0), 1.0) * rows for rate in rates), float(rows)],
            "law": law and [to_jsonable(law.mass), to_jsonable(law.loss), law.size],
        }

    def _count(self, number: int, rounds: int, test: EventTest) -> Iterator[EventTest]:
        """Count the event in the rounds of an epoch, and look at the evidence on the way."""
        sampler, options = self.sampler, self.options
        # a short epoch has 64 chunks, after each of which the evidence is looked at
        chunk = max(16, min(rounds // 64, chunk_size(rounds, options.width)))
        stage = sampler.stage(test.pair, Phase.EXTENSION + number, test.index, rounds, chunk)
        learning = self.rows + rounds <= self.most_trained
        sampler.planned = min(options.trials, sampler.done + rounds)
        kept: list[BothSides] = []
        pictured: list[BothSides] = []
        looked = 0
        for found in sampler.counts(stage, [test.event], rounds if learning else PICTURE_ROUNDS):
            test = replace(test.counted(found), planned=test.planned + found.rounds)
            sides = complete_sides(found)
            pictured += sides if len(pictured) * chunk < PICTURE_ROUNDS else []
            kept += sides
            done = test.tally.rounds
            # the runs or the time do not allow for another chunk
            used_up = sampler.done + chunk > options.trials or (
                options.seconds is not None and sampler.spent >= options.seconds
            )
            if done >= looked * 1.02 or used_up:  # an epoch's rounds grow by 2 % between looks
                looked = done
                test = replace(test, stopped=self._settled(test) or used_up)
            yield test
            if test.stopped:
                sampler.pace.stopped = True
                break
        sampler.check_calls(stage)
        if learning and kept:
            self.training_sides += kept
            check_training(kept)
        test = test.pictured(pictured)
        test = test.look(options.claim, options.alpha, options.alpha, sampler.done)
        sampler.show_bound(options.claim.symbol, test.lower)
        yield test

    def _settled(self, test: EventTest) -> bool:
        """Return whether the claim is violated, or the event cannot show a violation of the size
        that the audit looks for.
        """
        options, claim, part = self.options, self.options.claim, test.parts[-1]
        if options.stop == "never":
            return False
        parameter = claim.parameter
        if is_refuted(claim, test.parts, parameter, options.alpha):
            return options.stop == "violation" or is_refuted(
                claim, test.parts, gross_bound(parameter), options.alpha
            )
        if options.find is None or part.tally.rounds < self.checked * 1.2:  # checks are slow
            return False
        self.checked, least = part.tally.rounds, options.find * parameter
        most = shown_at_most(claim, part, options.alpha * epoch_weight(len(test.parts) - 1))
        if (
            most >= least
            or detectable(claim, test.law, test.planned, equivalent_level(options.alpha)) > least
        ):
            return False
        self.sampler.note(
            f"the tested event shows {claim.symbol} <= {most:.4g} at most (confidence "
            f"{1 - options.alpha:.12g}), less than {options.find:g} times the claim; this ended "
            "the audit. Other events are not excluded"
        )
        return True
