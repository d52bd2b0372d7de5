"""Request and state of an audit: the validated arguments, and the measurements so far."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpwitness.auditors.black_box.pair_exercise import Seen
from dpwitness.auditors.black_box.probe import ProbeResult
from dpwitness.auditors.black_box.timing import Costs
from dpwitness.auditors.events.detection import ScoreLaw
from dpwitness.auditors.events.event import Event
from dpwitness.auditors.events.histogram import EventHistogram
from dpwitness.auditors.events.rule_reader import read_event
from dpwitness.auditors.events.scores import Score
from dpwitness.auditors.results.audit_result import BitLevel, PairScore
from dpwitness.auditors.results.recompute import Basis
from dpwitness.auditors.running.engine import Pace, Segment, Stage, audit_key
from dpwitness.auditors.running.repeated_outputs import RepeatDetector
from dpwitness.auditors.running.rounds import Run
from dpwitness.auditors.running.statefulness import Unfit
from dpwitness.auditors.statistics.certificate import Tally
from dpwitness.auditors.statistics.combination import Part
from dpwitness.auditors.storing.audit_records import AuditLedger
from dpwitness.mechanisms.core.json_reader import Json
from dpwitness.mechanisms.data.pairs import Pair
from dpwitness.mechanisms.privacy import Claim, resolved

Progress = Callable[[int, int], None]
T = TypeVar("T")

PROBE = 64  # rounds in a probe's chunk; a probe runs about four chunks


@dataclass(frozen=True, slots=True, eq=False)
class AuditRequest:
    """Validated arguments of an audit, see `audit`. With a budget in seconds, `trials` is replaced before the first stage."""

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
        """Error probability of each of the two verdicts."""
        return 1 - self.confidence


@dataclass(slots=True)
class AuditState:
    """State of an audit: its request, and the measurements so far."""

    asked: AuditRequest
    run: Run
    planned: int  # total number of runs
    near: NDArray[np.float64] | None = None
    batch: int | None = None
    scores: tuple[Score, ...] = ()  # usable scores
    probe: int = PROBE  # rounds in the chunk of each probe
    done: int = 0
    pairs: list[PairScore] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    tested: list[PairTest] = field(default_factory=list)
    bit_level: BitLevel | None = None
    pace: Pace = field(default_factory=Pace)
    single: set[int] = field(default_factory=set)  # indices of pairs on which a batch has raised
    shared: bool = False  # whether the mechanism has drawn from a global generator
    probed: dict[int, ProbeResult] = field(default_factory=dict)
    plans: dict[int, Json] = field(default_factory=dict)  # pair index -> settings determined by its probe
    seen: Seen = field(default_factory=Seen)
    repeats: RepeatDetector = field(default_factory=RepeatDetector)
    costs: Costs = field(default_factory=Costs)
    ledger: AuditLedger | None = None  # store of the counts
    best: int = 0  # index of the tested pair
    extensions: int = 0  # number of extensions that have begun
    seconds: float = 0.0  # duration of earlier sessions up to the restored state
    started: float = field(default_factory=time.perf_counter)

    @property
    def scored(self) -> int:
        """Number of score columns, which come before the outputs' own columns."""
        return sum(len(score.keys) for score in self.scores)

    def stage(self, pair: Pair, phase: int, index: int, rounds: int, chunk: int) -> Stage:
        """Return the stage of these rounds, with the settings of the audit."""
        chunk = min(chunk, self.batch or chunk)
        key = (audit_key(self.asked.name), index, phase)
        asked, seeded = self.asked, bool(getattr(self.asked.mechanism, "seeded", True))
        return Stage(self.run, pair, asked.seed, key, rounds, chunk, asked.time_limit, index in self.single, self.shared, seeded)

    @property
    def took(self) -> float:
        """Duration of the audit so far, in seconds of wall time."""
        return self.seconds + time.perf_counter() - self.started

    @property
    def left(self) -> int:
        """Number of remaining runs."""
        return self.planned - self.done

    def take(self, index: int, stage: Stage, found: Segment) -> None:
        """Record a segment's marks, costs and failures on pair number `index`. Raise Unfit if its outputs have occurred before."""
        if found.single or found.lost:
            self.single.add(index)
        if self.repeats.add(found.marks):
            raise Unfit("mechanism ignores rng or keeps its noise: rounds repeat, the outputs of one chunk came again in another")
        self.costs.add((index, stage.chunk, found.single), found.rounds, found.seconds)
        self.advance(found.rounds)

    def use_claim_on(self, pair: Pair) -> None:
        """Replace the claim by the claim for this pair, which is the tested pair."""
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
        """Add notes that are not in the list yet."""
        self.notes.extend(note for note in notes if note not in self.notes)

    def advance(self, rounds: int) -> None:
        """Add completed rounds, and report the progress."""
        self.done += rounds
        if self.ledger is not None:
            self.ledger.progress(self.done, self.planned)
        if self.asked.progress is not None:
            self.asked.progress(self.done, self.planned)

    def looked(self, symbol: str, bound: float) -> None:
        """Report an interim look to the store and to the progress callback."""
        if self.ledger is not None:
            self.ledger.look(self.done, bound)
        tell = getattr(self.asked.progress, "looked", None)
        if tell is not None:
            tell(symbol, bound)

    def settled(self, key: str, find: Callable[[], T]) -> T:
        """Return the value stored under `key` by an earlier run of this audit, or else the result of `find`, which is then stored.

        Later stages depend on this value, so a resumed audit must use the stored one.
        """
        return find() if self.ledger is None else self.ledger.fact(key, find)

    def fixed(self, phase: int, index: int, event: Event) -> Event:
        """Return the event to test in a phase: the stored event if its test has begun, else the given event.

        From the same outputs, this machine may have learned a different event than an earlier one.
        """
        told = event.to_json()
        kept = self.settled(f"{event.kind} {phase} {index}", lambda: told)
        return event if kept == told else read_event(kept)


@dataclass(slots=True)
class PairTest:
    """State of the test on one pair: its latest event, and the counts of all stages, the current stage last."""

    pair: Pair
    alpha: float
    planned: int  # number of rounds of all stages of the test
    event: Event
    method: str
    parts: list[Part] = field(default_factory=list)
    lower: float = 0.0
    p_value: float = 1.0
    epsilon: float = 0.0
    basis: Basis | None = None  # counts from which `lower` and `epsilon` are computed
    law: ScoreLaw | None = None
    looks: list[tuple[int, float]] = field(default_factory=list)  # number of runs, and certified bound, at each look
    picture: EventHistogram | None = None
    stopped: bool = False  # whether a look stopped the test early

    @property
    def tally(self) -> Tally:
        """Counts of the current stage."""
        return self.parts[-1].tally if self.parts else Tally(0, 0, 0, self.event.directions)
