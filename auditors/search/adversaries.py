"""Search for the adversary of an interactive mechanism that leaks most.

An adversary fixes which queries are asked, and which query follows after which answer. The local
search starts from single queries and random strategies and changes one element at a time.

A candidate's score is the certificate that an event, learned on summaries of transcripts, is
expected to give. A summary holds how often each kind of answer comes, when the first unusual
answer comes, and sums of numbers. Summaries are cheaper than full transcripts, and steadier on
few runs. The finalists are ranked by full transcripts on more runs. All these runs are separate
from the runs that certify: only a fresh audit proves anything.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.random import Generator

from dpwitness.auditors.events.learning import expected_certificate
from dpwitness.auditors.events.outputs import WrongShape, encode
from dpwitness.auditors.search.catalogue import audited_pairs, require_settings
from dpwitness.auditors.search.maximize import Budget, Scored, maximize
from dpwitness.auditors.workers.rounds import stream
from dpwitness.core.claims import Claim, promised
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.protocols import FloatArray, MechanismFailed
from dpwitness.core.values.validation import (
    InvalidArgument,
    require_integer,
    require_that,
    short_repr,
)
from dpwitness.mechanisms.wrappers.programs.target import Target
from dpwitness.mechanisms.wrappers.sessions import (
    Adversary,
    Interactive,
    answer_kind,
    require_queries,
)

_FINALISTS, _PARENTS, _MAX_PAIRS = 5, 4, 6
_SINGLE_QUERIES = 24  # queries of a list that are first each tried alone
EVALUATIONS = 300  # default number of evaluations
_STREAM_KEY = 0xAD  # first word of the keys of random streams; no audit uses this key
_Candidate = tuple[Adversary, int]  # with the index of its pair


@dataclass(frozen=True, slots=True)
class FoundAdversary:
    """Result of a search for adversaries.

    Attributes
    ----------
    mechanism : callable
        The session with this adversary, ready to be audited.
    adversary : Adversary
        The best adversary.
    pair : Pair
        The pair, among those tried, on which the adversary scores best.
    expected : float
        The parameter that an audit of 200,000 rounds is expected to certify. The estimate ranks
        adversaries and certifies nothing.
    tried : int
        Number of adversaries that were scored.
    """

    mechanism: Any
    adversary: Adversary
    pair: Pair
    expected: float
    tried: int

    def describe(self) -> str:
        """Return a one-line description for the notes of a report."""
        return (
            f"adversary found by a search of {self.tried} candidates on separate runs: "
            f"{self.adversary.to_dict()}"
        )


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
    """Search for the adversary and the pair on which an interactive mechanism leaks most.

    Parameters
    ----------
    mechanism : Interactive or Target
        The result of `interactive`, or a target that is an interactive mechanism.
    pair : Pair or list of Pair, optional
        Pairs to search over. Default: the first pairs of the catalog of the mechanism's domain.
    claim : Claim or str, optional
        Default: the mechanism's own claim.
    queries, rounds : optional
        Queries that may be asked, and their maximum number. Default: those declared by the
        mechanism.
    evaluations, seconds : int, float
        Limits on the number of evaluations and on the duration in seconds; the first one ends the
        search. A search that ends by `evaluations` is reproducible from `seed`.
    seed : int
        Root seed of the search.

    Returns
    -------
    FoundAdversary
        The best adversary, its pair, and the certificate that an audit is expected to give.

    Raises
    ------
    InvalidArgument
        If the mechanism is not interactive, or no queries are given or declared.
    """
    owner = "find_adversary"
    claim = promised(mechanism, claim, owner)
    manifest = mechanism.describe() if isinstance(mechanism, Target) else {}
    require_that(
        isinstance(mechanism, Interactive) or manifest.get("rounds") is not None,
        f"mechanism must be interactive, got {short_repr(mechanism)}",
        owner,
    )
    own = {key: manifest.get(key, getattr(mechanism, key, None)) for key in ("queries", "rounds")}
    queries = own["queries"] if queries is None else queries
    require_that(
        queries is not None, "queries must be given, or declared by the mechanism, got None", owner
    )
    require_queries(queries)
    rounds = require_integer(
        "rounds", own["rounds"] if rounds is None else rounds, owner, most=10**6
    )
    seed, evaluations = require_settings(owner, seed, seconds, evaluations)
    pairs = audited_pairs(mechanism, pair)
    searched = pairs if pair is not None else pairs[:_MAX_PAIRS]
    search = _Search(mechanism, claim, searched, queries, rounds, seed)
    rng = stream(seed, _STREAM_KEY)
    drawn = Adversary([[search.draw(rng) for _ in range(rounds)]], rounds)
    # transcripts of random queries, from which the kinds of answers are collected
    found = chain.from_iterable(search.sides(drawn, 0, 64, 0))
    counts = Counter(map(answer_kind, chain(*(each for each in found if type(each) is list))))
    # The empty kind comes first: an adversary whose usual answer is empty never moves to its
    # next stage.
    search = replace(search, kinds=("", *(kind for kind, _ in counts.most_common(4))))
    tried = 0

    def score(candidates: Iterator[_Candidate]) -> Iterator[tuple[_Candidate, float]]:
        """Score all adversaries with the same randomness: scores differ by the adversary alone."""
        nonlocal tried
        for candidate in candidates:
            tried += 1
            yield candidate, search.expected(*candidate, 1000, search.summaries)

    best = maximize(score, search.candidates, Budget(seconds, evaluations), rng, keep=_FINALISTS)
    finalists = [Scored(each, search.expected(*each, 3000, list)) for each, _ in best]
    (adversary, place), expected = max(finalists, key=lambda scored: scored.value)
    return FoundAdversary(
        against(mechanism, adversary), adversary, searched[place], expected, tried
    )


@dataclass(frozen=True, slots=True)
class _Search:
    """Subject of a search, and the kinds of answers so far."""

    mechanism: Any
    claim: Claim
    pairs: list[Pair]
    queries: Any  # a list, or a convex set of vectors (a box or a ball)
    rounds: int
    seed: int
    kinds: tuple[str, ...] = ("",)

    def candidates(
        self, best: Sequence[Scored[_Candidate]], rng: Generator
    ) -> Iterator[_Candidate]:
        """Yield adversaries to score, each with the index of its pair, without end.

        First come single queries of a list, then the full list in order, then random strategies.
        After that most candidates are changes of the best adversaries so far.
        """
        listed, count = self.listed, len(self.pairs)
        for number, query in enumerate(listed[:_SINGLE_QUERIES]):
            yield Adversary([[query]], self.rounds), number % count
        if listed:
            yield Adversary([listed], self.rounds), 0
        for pair in range(count):
            yield self.random_adversary(rng), pair
        first = min(len(listed), _SINGLE_QUERIES) + bool(listed) + count
        for number in itertools.count(first):
            if rng.random() < (0.5 if number < _SINGLE_QUERIES else 0.1):
                yield self.random_adversary(rng), int(rng.integers(count))
                continue
            parent, pair = best[int(rng.integers(min(_PARENTS, len(best))))].candidate
            if count > 1 and rng.random() < 0.15:
                pair = int(rng.integers(count))
            yield self.changed(parent, rng), pair

    @property
    def listed(self) -> list[Any]:
        """Return the queries of a list, or an empty list for a convex set of vectors."""
        return [] if isinstance(self.queries, dict) else list(self.queries)

    def draw(self, rng: Generator) -> Any:
        """Return a random query. In a ball, half of the draws lie on the surface."""
        if not isinstance(self.queries, dict):
            return self.listed[int(rng.integers(len(self.listed)))]
        if "low" in self.queries:
            return np.asarray(rng.uniform(self.queries["low"], self.queries["high"])).tolist()
        dimension = int(self.queries["dimension"])
        length = 1.0 if rng.random() < 0.5 else rng.random() ** (1 / dimension)
        drawn = rng.standard_normal(dimension)
        found = np.asarray(
            float(self.queries["ball"]) * (1 - 1e-12) * length * drawn / np.linalg.norm(drawn)
        )
        return found.tolist()

    def near(self, query: Any, rng: Generator) -> Any:
        """Return a point between `query` and a random query, which stays inside a convex set."""
        other = self.draw(rng)
        if not isinstance(self.queries, dict) or rng.random() < 0.2:
            return other
        step = 10.0 ** rng.uniform(-3, 0)
        return [float((1 - step) * a + step * b) for a, b in zip(query, other, strict=True)]

    def kind(self, rng: Generator) -> str:
        """Return a random kind of answer among those seen."""
        return self.kinds[int(rng.integers(min(1, len(self.kinds) - 1), len(self.kinds)))]

    def random_adversary(self, rng: Generator) -> Adversary:
        """Return a random adversary of one or two stages."""
        stages = [
            [self.draw(rng) for _ in range(1 + int(rng.random() < 0.3))]
            for _ in range(1 + int(rng.random() < 0.3))
        ]
        return Adversary(stages, self.rounds, self.kind(rng))

    def changed(self, parent: Adversary, rng: Generator) -> Adversary:
        """Return a copy of `parent` with one random change.

        The change replaces, inserts or removes a query, adds or removes a stage, or draws another
        usual answer or number of rounds.
        """
        stages, usual = [list(stage) for stage in parent.stages], parent.usual
        rounds = parent.rounds
        selected = int(rng.integers(len(stages)))
        stage, choice = stages[selected], rng.random()
        if choice < 0.4:
            at = int(rng.integers(len(stage)))
            stage[at] = self.near(stage[at], rng)
        elif choice < 0.7 and len(stages) < 12:
            if len(stages) == 1:
                usual = self.kind(rng)
            last = stages[-1][-1]
            stages.append([self.near(last, rng) if rng.random() < 0.5 else self.draw(rng)])
        elif choice < 0.77 and len(stages) > 1:
            del stages[selected]
        elif choice < 0.85:
            stage.insert(int(rng.integers(len(stage) + 1)), self.draw(rng))
        elif choice < 0.92 and len(stage) > 1:
            del stage[int(rng.integers(len(stage)))]
        elif choice < 0.96:
            usual = self.kind(rng)
        else:
            rounds = max(1, min(self.rounds, int(rng.integers(1, self.rounds + 1))))
        return Adversary(stages, rounds, usual)

    def summaries(self, transcripts: Sequence[Any]) -> FloatArray:
        """Return a summary of each transcript as a row of numbers.

        The numbers are the length, the count of each kind, and the index of the first unusual
        answer. Then come the sum of all numbers in the answers, and the sum over unusual answers.
        """
        rows = np.zeros((len(transcripts), len(self.kinds) + 3))
        usual = self.kinds[min(1, len(self.kinds) - 1)]
        for row, answers in zip(rows, transcripts, strict=True):
            if isinstance(answers, list):
                kinds, numbers = list(map(answer_kind, answers)), list(map(_number, answers))
                unusual = [i for i, kind in enumerate(kinds) if kind != usual]
                row[:] = (
                    len(kinds),
                    *(kinds.count(kind) for kind in self.kinds[1:]),
                    min(unusual, default=len(kinds)),
                    sum(numbers),
                    sum(numbers[i] for i in unusual),
                )
        return rows

    def sides(self, adversary: Adversary, pair: int, runs: int, part: int) -> Iterator[list[Any]]:
        """Yield the transcripts on D1, then those on D0. If a side raises, its transcripts are
        replaced by the exception.
        """
        session, selected = against(self.mechanism, adversary), self.pairs[pair]
        run = getattr(session, "sample", session)
        for i, dataset in enumerate((selected.d1, selected.d0)):
            rng = stream(self.seed, _STREAM_KEY, part, i)
            try:
                yield list(run(dataset, runs, rng))
            except MechanismFailed:
                raise
            except Exception as error:
                yield [error] * runs

    def expected(
        self, adversary: Adversary, pair: int, runs: int, form: Callable[[list[Any]], Any]
    ) -> float:
        """Return the certificate expected from an event learned on transcripts in a form; minus
        infinity if undefined.
        """
        try:
            one, zero = (
                encode(form(found), runs) for found in self.sides(adversary, pair, runs, runs)
            )
        except WrongShape as error:
            raise InvalidArgument(f"find_adversary: {error}") from None
        # rounds of the later audit, for the expected certificate
        found = expected_certificate(one, zero, self.claim, alpha=0.01, rounds=200_000)
        return -math.inf if math.isnan(found) else found


def _number(answer: Any) -> float:
    """Return the sum of the finite numbers in an answer."""
    if isinstance(answer, list | tuple):
        return sum(map(_number, answer))
    real = isinstance(answer, int | float | np.integer | np.floating) and not isinstance(
        answer, bool
    )
    return float(answer) if real and math.isfinite(answer) else 0.0


def against(mechanism: Any, adversary: Adversary) -> Any:
    """Return the mechanism combined with this adversary."""
    if isinstance(mechanism, Target):
        return replace(mechanism, kwargs={**mechanism.kwargs, "adversary": adversary.to_dict()})
    return mechanism.against(adversary)
