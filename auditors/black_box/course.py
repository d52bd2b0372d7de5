"""What an audit was asked, once and for all, and what it has measured on its way."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpwitness.auditors.black_box.exercise import Seen
from dpwitness.auditors.black_box.probe import Probed
from dpwitness.auditors.black_box.timing import Costs
from dpwitness.auditors.events.detection import ScoreLaw
from dpwitness.auditors.events.picture import Picture
from dpwitness.auditors.events.reading import read_event
from dpwitness.auditors.events.rules import Event
from dpwitness.auditors.events.scores import Score
from dpwitness.auditors.results.audit_result import BitLevel, PairScore
from dpwitness.auditors.results.recomputed import Basis
from dpwitness.auditors.running.engine import Pace, Segment, Stage, audit_key
from dpwitness.auditors.running.health import Unfit
from dpwitness.auditors.running.repeats import Repeats
from dpwitness.auditors.running.rounds import Run
from dpwitness.auditors.statistics.certificate import Tally
from dpwitness.auditors.statistics.combination import Part
from dpwitness.auditors.storing.ledger import AuditLedger
from dpwitness.mechanisms.terms.notions import Claim, resolved
from dpwitness.mechanisms.terms.pairs import Pair
from dpwitness.mechanisms.terms.reading import Json

Progress = Callable[[int, int], None]
T = TypeVar("T")

PROBE = 64  # rounds in a probe's chunk, of which four are run in all


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """What is asked, checked: see `audit` for each. `trials` are what a budget in seconds replaces before the first stage."""

    name: str
    claim: Claim
    mechanism: Any
    trials: int
    confidence: float
    seed: int
    executor: Executor
    time_limit: float
    progress: Progress | None
    target: Json | None
    stop: str = "never"
    bits: bool = False

    @property
    def alpha(self) -> float:
        """The error of each of the two verdicts."""
        return 1 - self.confidence


@dataclass(slots=True)
class Course:
    """An audit under way: what it was asked, and what it has measured so far."""

    asked: Request
    run: Run
    planned: int  # runs in all
    near: NDArray[np.float64] | None = None
    batch: int | None = None
    scores: tuple[Score, ...] = ()  # that were tried and are fit
    probe: int = PROBE  # rounds in the chunk of each
    done: int = 0
    pairs: list[PairScore] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    tested: list[UnderTest] = field(default_factory=list)
    bit_level: BitLevel | None = None
    pace: Pace = field(default_factory=Pace)
    single: set[int] = field(default_factory=set)  # pairs on which a batch has been seen to raise
    shared: bool = False  # whether the mechanism has been seen to draw from a global generator
    probed: dict[int, Probed] = field(default_factory=dict)
    plans: dict[int, Json] = field(default_factory=dict)  # by pair, what its probe settled
    seen: Seen = field(default_factory=Seen)
    repeats: Repeats = field(default_factory=Repeats)
    costs: Costs = field(default_factory=Costs)
    ledger: AuditLedger | None = None  # where what is counted is written down
    best: int = 0  # number of the pair in the test
    extensions: int = 0  # of the plan, that have been begun
    seconds: float = 0.0  # that earlier starts took to the end that is gone on from
    started: float = field(default_factory=time.perf_counter)

    @property
    def scored(self) -> int:
        """Columns of scores, before those of the outputs."""
        return sum(len(score.keys) for score in self.scores)

    def stage(self, pair: Pair, phase: int, index: int, rounds: int, chunk: int) -> Stage:
        chunk = min(chunk, self.batch or chunk)
        key = (audit_key(self.asked.name), index, phase)
        asked, seeded = self.asked, bool(getattr(self.asked.mechanism, "seeded", True))
        return Stage(self.run, pair, asked.seed, key, rounds, chunk, asked.time_limit, index in self.single, self.shared, seeded)

    @property
    def took(self) -> float:
        """Seconds by the clock so far."""
        return self.seconds + time.perf_counter() - self.started

    @property
    def left(self) -> int:
        return self.planned - self.done

    def take(self, index: int, stage: Stage, found: Segment) -> None:
        """Note what a segment on pair number `index` tells of the mechanism. Raises Unfit if its outputs have been there before."""
        if found.single or found.lost:
            self.single.add(index)
        if self.repeats.add(found.marks):
            raise Unfit("mechanism ignores rng or keeps its noise: rounds repeat, the outputs of one chunk came again in another")
        self.costs.add((index, stage.chunk, found.single), found.rounds, found.seconds)
        self.advance(found.rounds)

    def hold_to(self, pair: Pair) -> None:
        """From here on the claim is what is promised on this pair, the one that is tested."""
        claim, said = resolved(self.asked.claim, pair)
        if claim is self.asked.claim and not said:
            return
        level = self.bit_level
        if level is not None and level.pair is not None and self.asked.claim.on(level.pair) != claim:
            self.bit_level = None
            self.note(f"low bits were looked at on another pair, where they certify epsilon > {level.epsilon_lower:.4g}")
        self.asked = replace(self.asked, claim=claim)
        self.note(*said)

    def note(self, *notes: str) -> None:
        self.notes.extend(note for note in notes if note not in self.notes)

    def advance(self, rounds: int) -> None:
        self.done += rounds
        if self.ledger is not None:
            self.ledger.progress(self.done, self.planned)
        if self.asked.progress is not None:
            self.asked.progress(self.done, self.planned)

    def looked(self, symbol: str, bound: float) -> None:
        """Note a look, where somebody wants to know."""
        if self.ledger is not None:
            self.ledger.look(self.done, bound)
        tell = getattr(self.asked.progress, "looked", None)
        if tell is not None:
            tell(symbol, bound)

    def settled(self, key: str, find: Callable[[], T]) -> T:
        """A plain value on which the plan of what follows depends: as an earlier run of this audit settled it, or as it is found now."""
        return find() if self.ledger is None else self.ledger.fact(key, find)

    def fixed(self, phase: int, index: int, event: Event) -> Event:
        """The event to be tested in a phase: that whose test has begun, should this machine have learned another from the same outputs."""
        told = event.to_json()
        kept = self.settled(f"{event.kind} {phase} {index}", lambda: told)
        return event if kept == told else read_event(kept)


@dataclass(slots=True)
class UnderTest:
    """A pair in the test: its latest event, and what every stage has counted, the one under way last."""

    pair: Pair
    alpha: float
    planned: int  # rounds of the whole test
    event: Event
    method: str
    parts: list[Part] = field(default_factory=list)
    lower: float = 0.0
    p_value: float = 1.0
    epsilon: float = 0.0
    basis: Basis | None = None  # the counts that certified `lower` and `epsilon`
    law: ScoreLaw | None = None
    looks: list[tuple[int, float]] = field(default_factory=list)  # runs made by then, and what was certified
    picture: Picture | None = None
    stopped: bool = False  # by a look, before its rounds were over

    @property
    def tally(self) -> Tally:
        return self.parts[-1].tally if self.parts else Tally(0, 0, 0, self.event.directions)
