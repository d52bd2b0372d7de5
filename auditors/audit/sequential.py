"""Sequential test: epochs of rounds, each with an event learned from all earlier rounds, until a
violation is certified or excluded.

The certificate is that of `anytime`: it holds at every moment, so that a test may stop for any
reason, and a stored test goes on where it stopped. Epoch k begins after `FIRST_EPOCH` * `GROWTH`^k
rounds, which depends on nothing, and so a longer test repeats the rounds of a shorter one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from dpwitness.auditors.audit.options import TRAIN_ROUNDS, TRAIN_VALUES, AuditOptions, chunk_size
from dpwitness.auditors.audit.probe import ProbedPair, repeat_probe
from dpwitness.auditors.audit.runner import RoundRunner
from dpwitness.auditors.audit.test import PICTURE_ROUNDS, EventTest, gross_bound
from dpwitness.auditors.audit.train import BothSides, both_sides, complete_sides, training_outputs
from dpwitness.auditors.events.detectable_violation import ScoreLaw, detectable
from dpwitness.auditors.events.event import picture
from dpwitness.auditors.events.learning import Learned, learn
from dpwitness.auditors.events.rule_reader import read_event
from dpwitness.auditors.statistics.anytime import (
    epoch_weight,
    equivalent_level,
    is_refuted,
    shown_at_most,
)
from dpwitness.auditors.statistics.certificate import Part, Prior, Tally
from dpwitness.auditors.workers.engine import Phase
from dpwitness.auditors.workers.statefulness import check_training
from dpwitness.core.values.json_codec import from_jsonable, to_jsonable
from dpwitness.core.values.json_reader import Json

FIRST_EPOCH = 64  # rounds that train the first event
GROWTH = 4  # factor between the rounds before an epoch and before the next


class SequentialTest:
    """State of a sequential test on one pair: its epochs so far, and the outputs from which the
    next event is learned.
    """

    def __init__(
        self,
        runner: RoundRunner,
        options: AuditOptions,
        probed: ProbedPair,
        known: Sequence[BothSides],
    ) -> None:
        self.runner, self.options, self.probed = runner, options, probed
        self.training_sides = list(known)
        self.trained = 0  # rounds from which the latest event was learned
        self.checked = 0  # rounds of the epoch at the last check of what the event can show
        self.learned: Learned | None = None
        self.most_trained = min(TRAIN_ROUNDS, TRAIN_VALUES // options.width)

    @property
    def rows(self) -> int:
        """Number of outputs from which the next event would be learned."""
        return sum(len(side) for sides in self.training_sides for side in sides)

    def run(self, start: EventTest | None = None, trained: int = 0) -> Iterator[EventTest]:
        """Yield the test after each change, until it is settled, or its runs or its time are used
        up.

        `start` is a test to continue, whose event was learned from `trained` outputs that are no
        longer available.
        """
        if start is None and self.rows < FIRST_EPOCH:
            self.training_sides.append(
                training_outputs(
                    self.runner, self.options, self.probed, Phase.TRAIN, FIRST_EPOCH - self.rows
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
        repeat_probe(self.runner, self.probed)

    def _begin(self, number: int, rounds: int, test: EventTest | None) -> EventTest:
        """Return the test with a new epoch, whose event is learned from all rounds so far while
        these are few enough.
        """
        rows = self.rows
        if test is not None and rows <= self.trained:
            return test
        plan = self.runner.settled(f"epoch {number}", lambda: self._learn(rows, rounds))
        event, method = read_event(plan["event"]), plan["method"]
        part = Part(Tally(0, 0, 0, event.directions), 0.0, 0, Prior(*plan["prior"]))
        self.trained, self.checked = rows, 0
        law = None
        if plan["law"] is not None:
            mass, loss, size = plan["law"]
            law = ScoreLaw(np.asarray(from_jsonable(mass)), np.asarray(from_jsonable(loss)), size)
        if test is None:
            alpha, probed = self.options.alpha, self.probed
            return EventTest(probed.pair, probed.index, alpha, 0, event, method, (part,), law=law)
        return replace(test, event=event, method=method, law=law, parts=(*test.parts, part))

    def _learn(self, rows: int, rounds: int) -> Json:
        """Learn the next event; return its rule, and its expected counts as the prior."""
        options, sides = self.options, both_sides(self.training_sides)
        level = equivalent_level(options.alpha)
        near, shift = options.near, options.shift
        self.learned = learn(
            *sides,
            options.claim,
            alpha=level,
            rounds=rounds,
            near=near,
            shift=shift,
            earlier=self.learned,
        )
        prior = [min(max(float(rate), 0.0), 1.0) * rows for rate in self.learned.rates]
        law = self.learned.law and [
            to_jsonable(self.learned.law.mass),
            to_jsonable(self.learned.law.loss),
            self.learned.law.size,
        ]
        return {
            "event": self.learned.event.to_json(),
            "method": self.learned.method,
            "prior": [*prior, float(rows)],
            "law": law,
        }

    def _count(self, number: int, rounds: int, test: EventTest) -> Iterator[EventTest]:
        """Count the event in the rounds of an epoch, and look at the evidence on the way."""
        runner, options = self.runner, self.options
        # a short epoch has 64 chunks, after each of which the evidence is looked at
        chunk = max(16, min(rounds // 64, chunk_size(rounds, options.width)))
        stage = runner.stage(test.pair, Phase.EXTENSION + number, test.index, rounds, chunk)
        learning = self.rows + rounds <= self.most_trained
        runner.planned = min(options.trials, runner.done + rounds)
        kept: list[BothSides] = []
        pictured: list[BothSides] = []
        looked = 0
        for found in runner.counts(stage, [test.event], rounds if learning else PICTURE_ROUNDS):
            part = test.parts[-1].plus(found.tally(test.event.directions), found.lost)
            test = replace(
                test, parts=(*test.parts[:-1], part), planned=test.planned + found.rounds
            )
            runner.record(stage, found)
            sides = complete_sides(found)
            self.training_sides += sides if learning else []
            kept += sides if learning else []
            pictured += sides if len(pictured) * chunk < PICTURE_ROUNDS else []
            done = part.tally.rounds
            used_up = self._used_up(chunk)
            if done >= looked * 1.02 or used_up:  # an epoch's rounds grow by 2 % between looks
                looked = done
                test = replace(test, stopped=self._settled(test) or used_up)
            yield test
            if test.stopped:
                runner.pace.stopped = True
                break
        runner.check_calls(stage)
        if learning and kept:
            check_training(kept)
        if pictured:
            test = replace(test, picture=picture(test.event, both_sides(pictured)))
        test = test.look(options.claim, options.alpha, options.alpha, runner.done)
        runner.report_look(options.claim.symbol, test.lower)
        yield test

    def _used_up(self, rounds: int) -> bool:
        """Return whether the runs or the time of the audit do not allow for `rounds`
        more rounds.
        """
        runner, options = self.runner, self.options
        return runner.done + rounds > options.trials or (
            options.seconds is not None and runner.spent >= options.seconds
        )

    def _settled(self, test: EventTest) -> bool:
        """Return whether the claim is violated, or the event cannot show a violation of the size
        that the audit looks for.
        """
        options, claim = self.options, self.options.claim
        if options.stop == "never":
            return False
        parameter = claim.parameter
        if is_refuted(claim, test.parts, parameter, options.alpha):
            return options.stop == "violation" or is_refuted(
                claim, test.parts, gross_bound(parameter), options.alpha
            )
        return options.find is not None and self._shows_too_little(test, options.find)

    def _shows_too_little(self, test: EventTest, find: float) -> bool:
        """Return whether the event shows no violation of size `find`, although this test would have
        found a violation of this size.
        """
        options, claim, part = self.options, self.options.claim, test.parts[-1]
        if part.tally.rounds < self.checked * 1.2:  # checks are slow
            return False
        self.checked = part.tally.rounds
        least = find * claim.parameter
        most = shown_at_most(claim, part, options.alpha * epoch_weight(len(test.parts) - 1))
        if (
            most >= least
            or detectable(claim, test.law, test.planned, equivalent_level(options.alpha)) > least
        ):
            return False
        self.runner.note(
            f"the tested event shows {claim.symbol} <= {most:.4g} at most (confidence "
            f"{1 - options.alpha:.12g}), "
            f"less than {find:g} times the claim; this ended the audit. Other events are not "
            "excluded"
        )
        return True
