"""Adversaries of an interactive mechanism: which queries, and which after what answer, betray most.

A climb from single queries and random strategies, by one change at a time. Ranked is what an event learned on summaries of transcripts is
expected to certify: how often each kind of answer comes, and when, and the numbers in them. That is cheaper than whole transcripts, and
steadier on few runs. The finalists are ranked by whole transcripts on more runs. All of it is apart from the rounds that certify: only a
fresh audit says anything.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.random import Generator

from dpwitness.auditors.events.learning import expected_certificate
from dpwitness.auditors.events.outputs import Outputs, WrongShape, encode
from dpwitness.auditors.pairs.catalogue import pairs_for, require_neighbours
from dpwitness.auditors.running.engine import stream
from dpwitness.mechanisms.domains import Domain
from dpwitness.mechanisms.foreign.target import Target
from dpwitness.mechanisms.objects.adversaries import Adversary, kind_of
from dpwitness.mechanisms.objects.sessions import Interactive, require_queries
from dpwitness.mechanisms.terms.notions import Claim, promised
from dpwitness.mechanisms.terms.pairs import Pair
from dpwitness.mechanisms.terms.protocol import MechanismFailed
from dpwitness.mechanisms.terms.validation import InvalidArgument, require_integer, require_positive, shown

_WARM = 64  # transcripts that show the kinds of answers
_RUNS, _FINAL = 1000, 3000  # of each side, for a score; for a finalist's
_FINALISTS, _PARENTS, _PAIRS = 5, 4, 6
_SINGLE = 24  # queries of a list that are each asked alone to begin with
_STAGES = 12
EVALUATIONS = 300  # where nobody says how many
_HORIZON = 200_000  # rounds that the audit may have, for the expected certificate
_KEY = 0xAD  # first word of the streams' keys, which are of no audit


@dataclass(frozen=True, slots=True)
class FoundAdversary:
    """What a search of adversaries found.

    Attributes
    ----------
    mechanism : callable
        The session against this adversary: what an audit runs.
    adversary : Adversary
    pair : Pair
        Of the pairs that were tried, the one on which it does best.
    expected : float
        The parameter that an audit of 200,000 rounds is expected to certify: it ranks, and certifies nothing.
    tried : int
        Adversaries that were scored.
    """

    mechanism: Any
    adversary: Adversary
    pair: Pair
    expected: float
    tried: int

    def describe(self) -> str:
        """In one line, for the notes of a report."""
        return f"adversary found by a search of {self.tried} on runs apart from these: {self.adversary.told()}"


def find_adversary(
    mechanism: Any,
    pair: Pair | Sequence[Pair] | None = None,
    claim: Claim | str | None = None,
    *,
    queries: Any = None,
    rounds: int | None = None,
    evaluations: int = EVALUATIONS,
    seconds: float = 60.0,
    seed: int = 0,
) -> FoundAdversary:
    """Search for the adversary, and the pair, on which an interactive mechanism leaks most.

    Parameters
    ----------
    mechanism : Interactive or Target
        What `interactive` returns, or a target that is such a mechanism.
    pair : Pair or list of Pair, optional
        Where to look; the first pairs of the mechanism's domain if left out.
    claim : Claim or str, optional
        The mechanism's own if left out.
    queries, rounds : optional
        What may be asked, and how often; the mechanism's own if left out.
    evaluations, seconds : int, float
        The search stops at whichever comes first. One that stops by `evaluations` finds the same for the same seed.
    seed : int

    Raises
    ------
    InvalidArgument
        If the mechanism is no session, or there is nothing that may be asked.
    """
    owner = "find_adversary"
    claim = promised(mechanism, claim, owner)
    about = mechanism.describe() if isinstance(mechanism, Target) else {}
    if not isinstance(mechanism, Interactive) and about.get("rounds") is None:
        raise InvalidArgument(f"{owner}: mechanism must be an interactive one, got {shown(mechanism)}")
    queries = about.get("queries", getattr(mechanism, "queries", None)) if queries is None else queries
    if queries is None:
        raise InvalidArgument(f"{owner}: queries must be given, or declared by the mechanism: what may be asked, got None")
    require_queries(queries)
    rounds = about.get("rounds", getattr(mechanism, "rounds", None)) if rounds is None else rounds
    rounds = require_integer("rounds", rounds, owner, most=10**6)
    require_positive("seconds", seconds, owner)
    evaluations, seed = require_integer("evaluations", evaluations, owner), require_integer("seed", seed, owner, least=0)
    search = _Search(mechanism, claim, _pairs(mechanism, pair, owner), Queries(queries), rounds, seed)
    return search.run(evaluations, time.monotonic() + seconds)


def _pairs(mechanism: Any, pair: Pair | Sequence[Pair] | None, owner: str) -> list[Pair]:
    if pair is not None:
        found = [pair] if isinstance(pair, Pair) else list(pair)
        if not found or not all(isinstance(p, Pair) for p in found):
            raise InvalidArgument(f"{owner}: pair must be a Pair or a non-empty list of Pairs, got {shown(pair)}")
        return found
    domain = getattr(mechanism, "domain", None)
    if not isinstance(domain, Domain):
        raise InvalidArgument(f"{owner}: pair must be given, or a domain by the mechanism, got neither")
    require_neighbours(domain, owner)
    return pairs_for(domain)[:_PAIRS]


@dataclass(frozen=True, slots=True)
class Queries:
    """What may be asked: a list, or a convex set of vectors."""

    given: Any

    @property
    def listed(self) -> list[Any]:
        """The queries of a list; none of a set of vectors."""
        return [] if isinstance(self.given, dict) else list(self.given)

    def draw(self, rng: Generator) -> Any:
        """One of them; of a ball half of the time on its surface."""
        if not isinstance(self.given, dict):
            return self.listed[int(rng.integers(len(self.listed)))]
        if "low" in self.given:
            return np.asarray(rng.uniform(self.given["low"], self.given["high"])).tolist()
        dimension = int(self.given["dimension"])
        length = 1.0 if rng.random() < 0.5 else rng.random() ** (1 / dimension)
        drawn = rng.standard_normal(dimension)
        found = np.asarray(float(self.given["ball"]) * (1 - 1e-12) * length * drawn / np.linalg.norm(drawn))
        return found.tolist()

    def near(self, query: Any, rng: Generator) -> Any:
        """A step from it towards another: a convex set is not left."""
        other = self.draw(rng)
        if not isinstance(self.given, dict) or rng.random() < 0.2:
            return other
        step = 10.0 ** rng.uniform(-3, 0)
        return [float((1 - step) * a + step * b) for a, b in zip(query, other, strict=True)]


@dataclass(slots=True)
class _Scored:
    adversary: Adversary
    pair: int
    value: float


@dataclass(slots=True)
class _Search:
    mechanism: Any
    claim: Claim
    pairs: list[Pair]
    queries: Queries
    rounds: int
    seed: int
    tried: int = 0
    kinds: tuple[str, ...] = ("",)

    def run(self, evaluations: int, deadline: float) -> FoundAdversary:
        rng = stream(self.seed, _KEY)
        self.kinds = self.seen(rng)
        best: list[_Scored] = []
        for adversary, pair in self.candidates(best, rng):
            best.append(_Scored(adversary, pair, self.promise(adversary, pair)))
            best.sort(key=lambda scored: -scored.value)
            del best[4 * _FINALISTS :]
            self.tried += 1
            if self.tried >= evaluations or time.monotonic() > deadline:
                break
        finalists = [replace(scored, value=self.expected(scored.adversary, scored.pair)) for scored in best[:_FINALISTS]]
        winner = max(finalists, key=lambda scored: scored.value)
        mechanism = against(self.mechanism, winner.adversary)
        return FoundAdversary(mechanism, winner.adversary, self.pairs[winner.pair], winner.value, self.tried)

    def seen(self, rng: Generator) -> tuple[str, ...]:
        """The kinds of answers that queries at random get, the most frequent first; before it the empty one, which never moves on."""
        asked = Adversary([[self.queries.draw(rng) for _ in range(self.rounds)]], self.rounds)
        run, counted = _run(against(self.mechanism, asked)), Counter[str]()
        for i, dataset in enumerate((self.pairs[0].d0, self.pairs[0].d1)):
            try:
                found = run(dataset, _WARM, stream(self.seed, _KEY, i))
            except Exception:  # an output, and no answer
                continue
            counted.update(kind_of(answer) for answers in found if isinstance(answers, list) for answer in answers)
        return ("", *(kind for kind, _ in counted.most_common(4)))

    def candidates(self, best: list[_Scored], rng: Generator) -> Iterator[tuple[Adversary, int]]:
        """Each query of a list alone, all in order, strategies at random; then, most of the time, changes of the best so far."""
        listed, count = self.queries.listed, len(self.pairs)
        for number, query in enumerate(listed[:_SINGLE]):
            yield Adversary([[query]], self.rounds), number % count
        if listed:
            yield Adversary([listed], max(self.rounds, len(listed)) if len(listed) <= self.rounds else self.rounds), 0
        for pair in range(count):
            yield self.drawn(rng), pair
        while True:
            if not best or rng.random() < (0.5 if self.tried < _SINGLE else 0.1):
                yield self.drawn(rng), int(rng.integers(count))
                continue
            parent = best[int(rng.integers(min(_PARENTS, len(best))))]
            pair = int(rng.integers(count)) if count > 1 and rng.random() < 0.15 else parent.pair
            yield self.changed(parent.adversary, rng), pair

    def kind(self, rng: Generator) -> str:
        """One of the kinds that were seen."""
        return self.kinds[int(rng.integers(min(1, len(self.kinds) - 1), len(self.kinds)))]

    def drawn(self, rng: Generator) -> Adversary:
        stages = [[self.queries.draw(rng) for _ in range(1 + int(rng.random() < 0.3))] for _ in range(1 + int(rng.random() < 0.3))]
        return Adversary(stages, self.rounds, self.kind(rng))

    def changed(self, parent: Adversary, rng: Generator) -> Adversary:
        """One change: a query, a stage more or less, a query more or less in a stage, another usual answer, other rounds."""
        stages, usual = [list(stage) for stage in parent.stages], parent.usual
        rounds = parent.rounds
        place = int(rng.integers(len(stages)))
        stage, turn = stages[place], rng.random()
        if turn < 0.4:
            at = int(rng.integers(len(stage)))
            stage[at] = self.queries.near(stage[at], rng)
        elif turn < 0.7 and len(stages) < _STAGES:
            if len(stages) == 1:
                usual = self.kind(rng)
            last = stages[-1][-1]
            stages.append([self.queries.near(last, rng) if rng.random() < 0.5 else self.queries.draw(rng)])
        elif turn < 0.77 and len(stages) > 1:
            del stages[place]
        elif turn < 0.85:
            stage.insert(int(rng.integers(len(stage) + 1)), self.queries.draw(rng))
        elif turn < 0.92 and len(stage) > 1:
            del stage[int(rng.integers(len(stage)))]
        elif turn < 0.96:
            usual = self.kind(rng)
        else:
            rounds = max(1, min(self.rounds, int(rng.integers(1, self.rounds + 1))))
        return Adversary(stages, rounds, usual)

    def promise(self, adversary: Adversary, pair: int) -> float:
        """What an event learned on summaries is expected to certify; the same randomness for all: what differs is the adversary."""
        found = [np.array([self.summary(answers) for answers in side]) for side in self.sides(adversary, pair, _RUNS, 1)]
        return self.certified(encode(found[0], _RUNS), encode(found[1], _RUNS))

    def summary(self, answers: Any) -> list[float]:
        """Of a transcript: how often each kind comes, the first time that the usual one does not, sums of numbers, all and when unusual."""
        if not isinstance(answers, list):
            return [0.0] * (len(self.kinds) + 3)
        kinds = [kind_of(answer) for answer in answers]
        usual = self.kinds[min(1, len(self.kinds) - 1)]
        first = next((i for i, kind in enumerate(kinds) if kind != usual), len(kinds))
        numbers = [_number(answer) for answer in answers]
        odd = sum(number for number, kind in zip(numbers, kinds, strict=True) if kind != usual)
        return [float(len(kinds)), *(float(kinds.count(kind)) for kind in self.kinds[1:]), float(first), sum(numbers), odd]

    def sides(self, adversary: Adversary, pair: int, runs: int, part: int) -> Iterator[list[Any]]:
        """Transcripts on D1 and on D0; those of runs that raise are what was raised."""
        run, place = _run(against(self.mechanism, adversary)), self.pairs[pair]
        for i, dataset in enumerate((place.d1, place.d0)):
            rng = stream(self.seed, _KEY, part, i)
            try:
                yield list(run(dataset, runs, rng))
            except MechanismFailed:
                raise
            except Exception as error:
                yield [error] * runs

    def expected(self, adversary: Adversary, pair: int) -> float:
        """What an event learned on whole transcripts is expected to certify."""
        try:
            one, zero = (encode(found, _FINAL) for found in self.sides(adversary, pair, _FINAL, 2))
        except WrongShape as error:
            raise InvalidArgument(f"find_adversary: {error}") from None
        return self.certified(one, zero)

    def certified(self, one: Outputs, zero: Outputs) -> float:
        """The expected certificate of an event learned on these."""
        found = expected_certificate(one, zero, self.claim, alpha=0.01, rounds=_HORIZON)
        return -math.inf if math.isnan(found) else found


def _number(answer: Any) -> float:
    """The finite numbers in an answer, added up."""
    if isinstance(answer, list | tuple):
        return sum(map(_number, answer))
    real = isinstance(answer, int | float | np.integer | np.floating) and not isinstance(answer, bool)
    return float(answer) if real and math.isfinite(answer) else 0.0


def against(mechanism: Any, adversary: Adversary) -> Any:
    """The mechanism against this adversary."""
    if isinstance(mechanism, Target):
        return replace(mechanism, kwargs={**mechanism.kwargs, "adversary": adversary.told()})
    return mechanism.against(adversary)


def _run(mechanism: Any) -> Any:
    return getattr(mechanism, "sample", mechanism)
