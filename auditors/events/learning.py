"""Choosing the event: on training data that certifies nothing, by what it is expected to certify on the test data.

One principle: every way to order outputs (`scorers`) gets the thresholds with the largest certificate in the mean over what the training
data leave uncertain (`posterior`), and the order whose mean is largest is taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from dpwitness.auditors.events.detection import ScoreLaw, score_law
from dpwitness.auditors.events.divergence import LEVELS, Binned, train_binned
from dpwitness.auditors.events.features import values_of
from dpwitness.auditors.events.outputs import Outputs, concatenate, signs_tell
from dpwitness.auditors.events.posterior import Choice, Draws, Goal, Table, counts_of, draw_atoms, draw_shares, judged, trusted
from dpwitness.auditors.events.rules import Event, only_exact
from dpwitness.auditors.events.scorers import (
    AtomScorer,
    ModelScorer,
    Scorer,
    Training,
    find_atoms,
    fit_distance,
    fit_line,
    fit_model,
    fit_trees,
    held_out_scores,
    repeated,
)
from dpwitness.mechanisms.terms.notions import Claim
from dpwitness.mechanisms.terms.protocol import FloatArray

_WORTH = 0.01  # how much more a later, less simple order must promise
_PLAIN_ATOMS = 16  # different outputs that need no model beside their counts
_RANK_ROWS = 2**14  # outputs, at most, by which pairs are ranked
_ENOUGH = 2**14  # to see whether a model of one number promises more than a threshold on it


@dataclass(frozen=True, slots=True)
class Learned:
    """An event, and the parameter that it is expected to certify."""

    event: Event
    expected: float
    method: str
    binned: Binned | None = None  # for RDP and zCDP
    law: ScoreLaw | None = None  # of the score on the training data
    rates: tuple[float, float] = (0.0, 0.0)  # at which it is expected to be right and wrong
    precision: dict[str, float] | None = None  # of the priors of the model's groups of features


@dataclass(frozen=True, slots=True)
class _Candidate:
    method: str
    choice: Choice
    event: Event
    scorer: Scorer
    table: Table | None


def learn(
    outputs1: Outputs,
    outputs0: Outputs,
    claim: Claim,
    *,
    alpha: float,
    rounds: int,
    near: FloatArray | None = None,
    earlier: Learned | None = None,
) -> Learned:
    """Learn a guess rule from outputs on D1 and on D0.

    Parameters
    ----------
    outputs1, outputs0 : Outputs
        Training outputs.
    claim : Claim
        What the rule is to refute.
    alpha, rounds : float, int
        Error and number of rounds of the test to come.
    near : (k,) array, optional
        An output around which balls are tried too.
    earlier : Learned, optional
        What was learned from fewer of these outputs: its priors are where those of the model begin.
    """
    goal = Goal(claim, alpha, rounds)
    data, rng = _training(outputs1, outputs0, rounds)
    with threadpool_limits(1, "blas"):  # for small matrices threads cost more than they bring, and round in another order
        best: _Candidate | None = None
        precision: dict[str, float] | None = None
        for candidate in _candidates(data, goal, near, rng, earlier.precision if earlier else None):
            if best is None or _beats(candidate, best):
                best = candidate
            if isinstance(candidate.scorer, ModelScorer):
                precision = candidate.scorer.precision
        if best is None:
            best = _of_atoms(data, goal, *find_atoms(data, always=True), None, rng)
        binned = _binned(best, goal) if claim.bounds_renyi else None
        law = None if best.table is None else score_law(best.table, claim, rng)
        rates = best.choice.right, best.choice.wrong
        return Learned(best.event, best.choice.expected, best.method, binned, law, rates, precision)


def _training(outputs1: Outputs, outputs0: Outputs, rounds: int) -> tuple[Training, np.random.Generator]:
    both = concatenate([outputs1, outputs0])
    if both.signs and not signs_tell(both, len(outputs1)):
        both = both.unsigned()
    rng = np.random.default_rng(np.random.SeedSequence(len(both), spawn_key=(0x1EA2, rounds)))
    return Training.build(both, len(outputs1), rng), rng


def expected_certificate(outputs1: Outputs, outputs0: Outputs, claim: Claim, *, alpha: float, rounds: int) -> float:
    """Return about what an event learned from these outputs would certify: enough to rank pairs, at a small part of the cost of `learn`.

    Half of the outputs order the other half, by the one column that varies, by a model whose priors are not tuned, and by the counts of
    outputs that repeat. Arguments as for `learn`.
    """
    goal = Goal(claim, alpha, rounds, rough=True)
    data, rng = _training(outputs1, outputs0, rounds)
    place = np.arange(len(data.label))
    if len(place) > _RANK_ROWS:
        data, place = data.rows(place < _RANK_ROWS), place[:_RANK_ROWS]
    with threadpool_limits(1, "blas"):
        held_out = data.label[1::2]
        return max((_rough_value(score, held_out, goal, rng) for score in _rough_scores(data, place % 2 == 0)), default=0.0)


def _rough_scores(data: Training, fitted: NDArray[np.bool_]) -> Iterator[FloatArray]:
    """Scores of the outputs that are not `fitted`, by orders learned from those that are."""
    one, other = data.rows(fitted), data.matrix[~fitted]
    atoms = find_atoms(data)
    if atoms is not None:
        at = atoms[1]
        ones, total = counts_of(at[fitted & (at >= 0)], data.label[fitted & (at >= 0)], len(atoms[0]))
        yield np.append(np.log((ones + 0.5) / (total - ones + 0.5)), 0.0)[at[~fitted]]
        if len(atoms[0]) <= _PLAIN_ATOMS:
            return
    line = fit_line(one)
    if line is not None:
        yield line.score(other)
    model = fit_model(one, tune=False)
    if model is not None:
        yield model.score(other)


def _rough_value(score: FloatArray, label: NDArray[np.bool_], goal: Goal, rng: np.random.Generator) -> float:
    """Return what thresholds on a score would certify in the mean."""
    table = Table.build(score, label)

    def draw(which: int | None) -> tuple[NDArray[np.intp], Draws]:
        part = table.half(label, which)
        return np.arange(len(part.total)), Draws.of(part.total, draw_shares(part, goal, rng), rng)

    return judged(draw, goal)[0].expected


def _candidates(
    data: Training, goal: Goal, near: FloatArray | None, rng: np.random.Generator, start: dict[str, float] | None
) -> Iterator[_Candidate]:
    def scored(method: str, scorer: Scorer, score: FloatArray, whole: FloatArray, data: Training = data) -> _Candidate:
        """`score` judges; `whole` is what the event will compare, whose thresholds name as many of the training outputs."""
        table = Table.build(score, data.label)
        cells = np.arange(len(table.total))

        def draw(which: int | None) -> tuple[NDArray[np.intp], Draws]:
            part = table.half(data.label, which)
            return cells, Draws.of(part.total, draw_shares(part, goal, rng), rng)

        choice, _ = judged(draw, goal)
        ends = np.append(0, np.cumsum(table.total)).astype(np.intp)
        low, high = (_between(np.sort(whole), int(ends[cell])) for cell in (choice.lower, choice.upper))
        return _Candidate(method, choice, scorer.event(low, max(low, high)), scorer, table)

    atoms = find_atoms(data)
    few = atoms is not None and len(atoms[0]) <= _PLAIN_ATOMS
    line = None if few else fit_line(data)
    if line is not None:
        own = line.score(data.matrix)
        yield scored("line", line, own, own)
    alone = few or len(data.varying) <= 1  # a model has nothing to say of atoms beyond their own counts
    if atoms is not None and alone:
        yield _of_atoms(data, goal, *atoms, None, rng)
    simple = few
    if alone and line is not None and len(data.label) > 2 * _ENOUGH and repeated(values_of(data.matrix)) is None:
        part = data.rows(np.arange(len(data.label)) % (len(data.label) // _ENOUGH) == 0)
        tried = fit_model(part, start=start)
        judge = None if tried is None else held_out_scores(part, tried)
        if tried is not None and judge is not None:  # a part shows whether a model of one number is worth what it costs to fit
            own, whole = line.score(part.matrix), tried.score(part.matrix)
            simple = not _beats(scored("model", tried, judge, whole, part), scored("line", line, own, own, part))
    model = None if simple else fit_model(data, start=start)
    scores = held_out_scores(data, model) if model is not None else None
    exact = repeated(model.values) if model is not None else None
    if exact is not None:
        masked = replace(data, matrix=only_exact(data.matrix, exact), same=None)
        patterns = find_atoms(masked)
        if patterns is not None:
            yield _of_atoms(masked, goal, *patterns, None, rng, exact)
    found = None
    if model is not None and scores is not None:
        found = scored("model", model, scores, model.score(data.matrix))
        yield found
        boosted = None if alone else fit_trees(data, model, scores)
        if boosted is not None:
            yield scored("trees", boosted[0], boosted[1], boosted[0].score(data.matrix))
    distance = None if near is None else fit_distance(data, near)
    if distance is not None:
        own = distance.score(data.matrix)
        yield scored("distance", distance, own, own)
    if atoms is not None and not alone:
        yield _of_atoms(data, goal, *atoms, found, rng)


def _beats(later: _Candidate, earlier: _Candidate) -> bool:
    """Whether a less simple order promises enough more to be worth it."""
    least = earlier.choice.expected
    return later.choice.expected > least + _WORTH * abs(least)


def _between(ordered: FloatArray, rank: int) -> float:
    """A threshold above about as many of these numbers as `rank` says, next to the values that are equal there; infinite at the ends."""
    if not 0 < rank < len(ordered):
        return -np.inf if rank <= 0 else np.inf
    if ordered[rank - 1] == ordered[rank]:
        start, end = (int(np.searchsorted(ordered, ordered[rank], side=side)) for side in ("left", "right"))
        rank = end if start == 0 or (end < len(ordered) and end - rank < rank - start) else start
    below, above = float(ordered[rank - 1]), float(ordered[min(rank, len(ordered) - 1)])
    middle = 0.5 * below + 0.5 * above
    return middle if below <= middle < above else below


def _of_atoms(
    data: Training,
    goal: Goal,
    rows: FloatArray,
    place: NDArray[np.intp],
    model: _Candidate | None,
    rng: np.random.Generator,
    exact: FloatArray | None = None,
) -> _Candidate:
    """Each output by its own counts, around the share that the model gives to outputs of its score."""
    cells = None
    if model is not None and model.table is not None:
        assert isinstance(model.scorer, ModelScorer)
        cells = np.searchsorted(model.table.bounds, model.scorer.score(rows), side="left")

    def draw(which: int | None) -> tuple[NDArray[np.intp], Draws]:
        label, at = (data.label, place) if which is None else (data.label[which::2], place[which::2])
        label, at = label[at >= 0], at[at >= 0]
        ones, total = counts_of(at, label, len(rows))
        if cells is None or model is None or model.table is None:
            prior = np.full((goal.thresholds[0], len(rows)), label.mean())
        else:
            prior = draw_shares(model.table.half(data.label, which), goal, rng)[:, cells]
        return draw_atoms(ones, total, np.clip(prior, 1e-6, 1 - 1e-6), rng)

    choice, order = trusted(draw, goal) if len(rows) <= _PLAIN_ATOMS else judged(draw, goal)
    scorer = AtomScorer(rows[order], data.names, exact)
    at = np.argsort(order)[place[place >= 0]]
    ones, total = counts_of(at, data.label[place >= 0], len(rows))
    spots, method = np.arange(len(rows), dtype=float), "atoms" if exact is None else "exact values"
    return _Candidate(method, choice, scorer.event(choice.lower, choice.upper), scorer, Table(spots[1:], spots, ones, total, at))


def _binned(best: _Candidate, goal: Goal) -> Binned | None:
    """Cells between quantiles of the score, with losses from outputs that did not shape the score."""
    table = best.table
    if table is None or len(table.bounds) == 0:
        return None
    share = np.cumsum(table.total)[:-1] / table.total.sum()
    cuts = np.unique(np.minimum(np.searchsorted(share, LEVELS), len(share) - 1))
    counts = [np.add.reduceat(side, np.append(0, cuts + 1)) for side in (table.ones, table.zeros)]
    events = tuple(best.scorer.event(-np.inf, float(bound)) for bound in table.bounds[cuts])
    return train_binned(goal.claim, events, np.array(counts), goal.rounds, goal.alpha / 2)
