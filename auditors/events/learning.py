"""Learning of the event: choose the guess rule with the largest expected certificate, on training
data that are not used in the test.

Each order of the outputs (`scorers`) gets the thresholds with the largest certificate, averaged
over the posterior given the training data (`posterior`). The order with the largest mean
certificate is chosen.

**Simple events** come first: intervals of a column, values that occur on one side only, and float
bits, whatever the value (Mironov 2012). The first two only rank pairs. A naive floating-point
Laplace sample of 0 + noise has low bits that 1 + noise can never have. The training data show which
classes of (exponent, lowest set bit) are more frequent on which dataset, as for atoms. Outputs on a
grid have the same classes on both sides. In addition to sets of classes, the search tries all
outputs with a lowest set bit below some power of two. These events include classes that are too
rare to occur in the training data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from dpwitness.auditors.events.event import CELL_QUANTILES, Binned, Event, train_renyi_rule
from dpwitness.auditors.events.features import values_of
from dpwitness.auditors.events.outputs import (
    Outputs,
    TrainingSet,
    concatenate,
    row_keys,
    signs_may_differ,
)
from dpwitness.auditors.events.posterior import (
    CertificateGoal,
    Choice,
    PosteriorDraws,
    ScoreLaw,
    ScoreTable,
    cell_counts,
    direct_choice,
    draw_atoms,
    draw_shares,
    score_law,
    validated_choice,
)
from dpwitness.auditors.events.rules import (
    Atoms,
    Lattice,
    LowBits,
    lattice,
    lowest_bit_exponents,
    mask_other_values,
    name_of_atom,
)
from dpwitness.auditors.events.scorers import (
    ModelScorer,
    Scorer,
    counts_suffice,
    find_atoms,
    fit_line,
    fit_medians,
    fit_model,
    fit_shift,
    fit_trees,
    held_out_scores,
    repeated,
)
from dpwitness.auditors.statistics.certificate import certified, wilson_lower
from dpwitness.auditors.statistics.columns import varying_columns
from dpwitness.core.claims import Claim
from dpwitness.core.protocols import FloatArray

_MAX_ROWS = 2**16
# error probability of these certificates: so small that the largest of many pairs and events is
# seldom due to chance
FEW_ALPHA = 1e-5
# maximum number of cells of a column, between whose ends lie the intervals that are compared
_SCANNED_CELLS = 40


def has_bits(values: NDArray[np.float64]) -> bool:
    """Return whether some values are not integers, which have no informative low bits."""
    return not np.array_equal(values, np.rint(values), equal_nan=True)


def learn_float_bits(
    outputs1: Outputs, outputs0: Outputs, claim: Claim, *, alpha: float, rounds: int, first: int = 0
) -> tuple[float, Event] | None:
    """Return the best event on the float bits of one column and its expected certificate; None if
    no class of bits is informative.

    Columns before `first` are scores and are skipped. The first element of the pair is the
    certified parameter at the expected counts of `rounds` test rounds, with error probability
    `alpha`.
    """
    found = list[tuple[float, Event]]()
    # at most 8 columns of a wide output are searched
    end = min(outputs1.values.shape[1], outputs0.values.shape[1], first + 8)
    for column in range(first, end):
        x1, x0 = outputs1.values[:_MAX_ROWS, column], outputs0.values[:_MAX_ROWS, column]
        if not (has_bits(x1) or has_bits(x0)):
            continue
        features = np.concatenate([lattice(x1), lattice(x0)])
        _, representative, inverse, counts = np.unique(
            row_keys(features), return_index=True, return_inverse=True, return_counts=True
        )
        ones = np.bincount(inverse[: len(x1)], minlength=len(representative)).astype(float)
        zeros = counts - ones
        # shrink each log-ratio by two standard errors, so that rare classes do not lead the order
        ratio = np.log((ones + 0.5) / (len(x1) + 1)) - np.log((zeros + 0.5) / (len(x0) + 1))
        error = np.sqrt(1 / (ones + 0.5) + 1 / (zeros + 0.5))
        trusted = np.sign(ratio) * np.maximum(np.abs(ratio) - 2 * error, 0.0)
        # scale each side to half of the rounds: the training sizes of the two sides may differ
        weight = 0.5 * rounds / np.maximum((len(x1), len(x0)), 1)
        expected1, expected0 = weight[0] * ones, weight[1] * zeros
        events: list[tuple[Event, float, float]] = []
        for level in np.unique(np.quantile(np.abs(trusted), np.linspace(0, 1, 25))):
            guesses = np.where(np.abs(trusted) >= max(level, 1e-9), np.sign(trusted), 0.0)
            used = np.flatnonzero(guesses)
            if len(used) == 0:
                continue
            named1, named0 = used[guesses[used] > 0], used[guesses[used] < 0]
            events.append(
                (
                    Lattice(column, features[representative[used]], guesses[used]),
                    expected1[named1].sum() + expected0[named0].sum(),
                    expected0[named1].sum() + expected1[named0].sum(),
                )
            )
        low = lowest_bit_exponents(features[representative])
        for below in np.unique(low[np.isfinite(low)])[1:]:
            below_counts = expected1[low < below].sum(), expected0[low < below].sum()
            events.append(
                (
                    LowBits(column, float(below), 1 if below_counts[0] > below_counts[1] else -1),
                    max(below_counts),
                    min(below_counts),
                )
            )
        for event, correct, wrong in events:
            # one more wrong guess, but no more guesses than rounds
            one_more_wrong = min(wrong + weight.max(), rounds - correct)
            value = float(
                certified(
                    claim, correct, max(wrong, one_more_wrong), rounds, alpha, event.directions
                )
            )
            found.append((value, event))
    return max(found, key=lambda each: each[0], default=None)


def best_interval(data: TrainingSet, claim: Claim, rounds: int) -> float:
    """Return the largest parameter that `rounds` runs would certify from an interval of one column,
    or from all outputs outside of it.

    Its error probability is so small that noise seldom leads.
    """
    rates = [np.zeros((2, 0))]
    sides = [np.flatnonzero(data.label), np.flatnonzero(~data.label)]
    for column in data.matrix[:, data.varying[:64]].T:
        _, value = np.unique(np.where(np.isnan(column), np.inf, column), return_inverse=True)
        rank = np.cumsum(np.bincount(value))
        levels = (
            rank
            if len(rank) <= _SCANNED_CELLS
            else np.linspace(0, len(value), _SCANNED_CELLS + 1)[1:]
        )
        ends = np.unique(np.searchsorted(rank, levels))
        counts = np.array(
            [
                np.append(0, np.cumsum(np.bincount(value[side], minlength=len(rank)))[ends])
                for side in sides
            ]
        )
        below = counts / np.maximum(counts[:, -1:], 1)
        first, last = np.triu_indices(below.shape[1], 1)
        inside = below[:, last] - below[:, first]
        rates += [inside, 1 - inside, inside[::-1], 1 - inside[::-1]]
    right, wrong = 0.5 * np.concatenate(rates, axis=1)
    goal = CertificateGoal(claim, FEW_ALPHA, rounds)
    return float(goal.value(right, wrong, 1).max(initial=0.0))


def best_one_sided(data: TrainingSet, goal: CertificateGoal) -> float:
    """Return the largest parameter that the later test would certify from values that occur on one
    dataset only, in any column.

    Such a value, for example the name of one record, certifies more the more often it occurs. So a
    few occurrences in a pilot are scaled up to the rounds of the test. Each half of the outputs
    selects the values and their frequencies for the other half: a value that has no copy there,
    such as a number with noise, is not counted.
    """
    # not the structure: each set of keys is another one
    varying = [j for j in data.varying if j > 0]
    matrix = data.matrix[: 2**20 // max(len(varying), 1), varying]
    label = data.label[: len(matrix)]
    _, value = np.unique(np.where(np.isnan(matrix), np.inf, matrix), return_inverse=True)
    value = value.reshape(matrix.shape)
    score = np.zeros(len(matrix))
    for half in (0, 1):
        ones, zeros = (
            np.bincount(value[half::2][label[half::2] == side].ravel(), minlength=value.size)
            for side in (True, False)
        )
        votes = np.where(zeros == 0, ones, 0) - np.where(ones == 0, zeros, 0)
        there = votes[value[1 - half :: 2]]
        most, least = there.max(axis=1, initial=0), there.min(axis=1, initial=0)
        score[1 - half :: 2] = np.where(most >= -least, most, least)
    best = 0.0
    for toward, other in ((score[label], score[~label]), (-score[~label], -score[label])):
        least = np.unique(toward[toward > 0])
        right, wrong = (
            np.count_nonzero(side[:, None] >= least, axis=0) for side in (toward, other)
        )
        # 1.5 standard deviations below the estimate: the best of many values is chance
        share = wilson_lower(right / (right + wrong), right + wrong, 1.5)
        rate = (right + wrong) / len(matrix)
        best = max(best, float(goal.value(rate * share, rate * (1 - share), 1).max(initial=0.0)))
    return best


def best_against_constant(data: TrainingSet, goal: CertificateGoal) -> float:
    """Return the largest parameter that the later test would certify from outputs that differ from
    the one output of the other dataset, if that is the same in all runs: it probably has no other.

    More runs of the pair correct this if it has.
    """
    best = 0.0
    for side in (data.label, ~data.label):
        here, there = data.matrix[side], data.matrix[~side]
        if not len(here) or not len(there) or varying_columns(there):
            continue
        differs = ~np.all((here == there[0]) | (np.isnan(here) & np.isnan(there[0])), axis=1)
        rate = wilson_lower(np.mean(differs, keepdims=True), len(here), 1.5)
        right = rate * len(here) / len(data.label)
        best = max(best, float(goal.value(right, np.zeros(1), 1)[0]))
    return best


_RANK_ROWS = 2**14  # maximum number of outputs used to rank pairs
# outputs up to which pairs are ranked by what about as many runs would certify: beyond these, noise
# leads the order; with more outputs, weights can be fitted to all features
_FEW_ROWS = 2**12
# outputs needed to decide whether a model of one number beats a threshold on the number
_SUBSET_ROWS = 2**14
# outputs beyond a threshold from which their share is compared with that of the final scores, and
# the part of the share that these must reach
_LEAST_BEYOND, _REACHED = 20, 0.7


@cache
def _threads() -> ThreadpoolController:
    """Return the controller of the linear algebra libraries, which takes milliseconds to find them.

    Learning limits them to one thread: threads slow small matrices down, and change the order of
    rounding.
    """
    return ThreadpoolController()


@dataclass(frozen=True, slots=True)
class Learned:
    """Learned event and the parameter that it is expected to certify."""

    event: Event
    expected: float
    method: str
    binned: Binned | None = None  # for RDP and zCDP only
    law: ScoreLaw | None = None  # distribution of the score on the training data
    rates: tuple[float, float] = (0.0, 0.0)  # expected shares of right and of wrong guesses
    precision: dict[str, float] | None = None  # prior precision of each feature group of the model
    # share of the variance of the model's score that is chance; 0 for other orders
    chance: float = 0.0


@dataclass(frozen=True, slots=True)
class _Candidate:
    """Event from one order of the outputs, with the scorer (None for an order by counts) and the
    table of training counts behind the event.

    `event_at` returns the event with other thresholds on the order.
    """

    method: str
    choice: Choice
    event: Event
    event_at: Callable[[float, float], Event]
    scorer: Scorer | None
    table: ScoreTable


def learn(
    outputs1: Outputs,
    outputs0: Outputs,
    claim: Claim,
    *,
    alpha: float,
    rounds: int,
    shift: FloatArray | None = None,
    earlier: Learned | None = None,
) -> Learned:
    """Return the event with the largest expected certificate, learned from training outputs on D1
    and on D0.

    `alpha` and `rounds` are those of the later test of `claim`. The log-odds for a `shift` of the
    numbers from D0 to D1 under the same noise are tried too. The prior precisions of `earlier`,
    learned from fewer of these outputs, are the starting point of the model's.
    """
    goal = CertificateGoal(claim, alpha, rounds)
    data, rng = _training_set(outputs1, outputs0, rounds)
    start = earlier.precision if earlier else None
    with _threads().limit(limits=1, user_api="blas"):
        best: _Candidate | None = None
        precision: dict[str, float] | None = None
        for candidate in _candidates(data, goal, shift, rng, start):
            if best is None or _beats(candidate, best):
                best = candidate
            if isinstance(candidate.scorer, ModelScorer):
                precision = candidate.scorer.precision
        if best is None:
            atoms = find_atoms(data, always=True)
            assert atoms is not None
            best = _atom_candidate(data, goal, *atoms, None, rng)
        renyi = claim.bounds_renyi and len(best.table.bounds) > 0
        return Learned(
            best.event,
            best.choice.expected,
            best.method,
            _train_cells(best, goal) if renyi else None,
            score_law(best.table, claim, rng),
            (best.choice.right, best.choice.wrong),
            precision,
            best.scorer.chance if isinstance(best.scorer, ModelScorer) else 0.0,
        )


def _train_cells(best: _Candidate, goal: CertificateGoal) -> Binned | None:
    """Return a rule on cells between quantiles of the score, with losses from outputs that did not
    train the score.
    """
    table = best.table
    share = np.cumsum(table.total)[:-1] / table.total.sum()
    cuts = np.unique(np.minimum(np.searchsorted(share, CELL_QUANTILES), len(share) - 1))
    starts = np.append(0, cuts + 1)
    counts = np.array([np.add.reduceat(side, starts) for side in (table.ones, table.zeros)])
    events = tuple(best.event_at(-np.inf, float(bound)) for bound in table.bounds[cuts])
    return train_renyi_rule(goal.claim, events, counts, goal.rounds, goal.alpha / 2)


def learn_simple(
    outputs1: Outputs, outputs0: Outputs, claim: Claim, *, alpha: float, rounds: int
) -> Event | None:
    """Return an event of outputs in which at most one number varies, at a small part of the cost of
    `learn`; None for other outputs.

    The arguments are those of `learn`.
    """
    data, rng = _training_set(outputs1, outputs0, rounds)
    if len(data.varying) > 1:
        return None
    with _threads().limit(limits=1, user_api="blas"):
        first = next(
            _candidates(data, CertificateGoal(claim, alpha, rounds, rough=True), None, rng, None),
            None,
        )
    return None if first is None else first.event


def _training_set(
    outputs1: Outputs, outputs0: Outputs, rounds: int
) -> tuple[TrainingSet, np.random.Generator]:
    """Return the training set of the outputs on both datasets, without signs of zeros if they do
    not differ, and a seeded random generator.
    """
    both = concatenate([outputs1, outputs0])
    if both.signs and not signs_may_differ(both, len(outputs1)):
        both = both.unsigned()
    rng = np.random.default_rng(np.random.SeedSequence(len(both), spawn_key=(0x1EA2, rounds)))
    return TrainingSet.build(both, len(outputs1), rng), rng


def expected_certificate(
    outputs1: Outputs,
    outputs0: Outputs,
    claim: Claim,
    *,
    alpha: float,
    rounds: int,
    suspect: bool = False,
) -> float:
    """Estimate the parameter that an event learned from these outputs would certify.

    The estimate is accurate enough to rank pairs, at a small part of the cost of `learn`. Half of
    the outputs order the other half, in three ways: by the one column that varies, by a model whose
    priors are not tuned, and by the counts of repeated outputs. The intervals of each column are
    compared too, and the values that occur on one dataset only, and the outputs other than the
    only output of the other dataset.

    With few outputs, the estimate is the certificate of a test with about as many runs, because an
    event that is rare in them is often noise. If the pair is `suspect` for another reason than its
    outputs, the estimate is for `rounds` runs. The other arguments are those of `learn`.
    """
    data, rng = _training_set(outputs1, outputs0, rounds)
    size = len(data.label)
    few = size <= _FEW_ROWS and not suspect
    goal = CertificateGoal(
        claim,
        min(alpha, FEW_ALPHA) if few else alpha,
        min(rounds, size) if few else rounds,
        rough=True,
    )
    place = np.arange(size)
    # all outputs are counted at once
    few_atoms = data.distinct is not None and counts_suffice(len(data.distinct.first), size)
    if size > _RANK_ROWS and not few_atoms:
        data, place = data.rows(place < _RANK_ROWS), place[:_RANK_ROWS]
    with _threads().limit(limits=1, user_api="blas"):
        held_out = data.label[1::2]
        found = [
            _choose_thresholds(score, held_out, goal, rng)[0].expected
            for score in _rough_scores(data, place % 2 == 0)
        ]
    whole = CertificateGoal(claim, alpha, rounds)
    return max(
        [
            *found,
            best_one_sided(data, whole),
            best_against_constant(data, whole),
            best_interval(data, claim, min(rounds, 2 * size)) if few else 0.0,
        ]
    )


def _rough_scores(data: TrainingSet, fitted: NDArray[np.bool_]) -> Iterator[FloatArray]:
    """Yield scores of the outputs that are not in `fitted`, by orders learned from the outputs in
    `fitted`.
    """
    fitted_part, other_matrix = data.rows(fitted), data.matrix[~fitted]
    atoms = find_atoms(data)
    if atoms is not None:
        atom_index = atoms[1]
        ones, total = cell_counts(
            atom_index[fitted & (atom_index >= 0)],
            data.label[fitted & (atom_index >= 0)],
            len(atoms[0]),
        )
        yield np.append(np.log((ones + 0.5) / (total - ones + 0.5)), 0.0)[atom_index[~fitted]]
        if counts_suffice(len(atoms[0]), len(data.label)):
            return
    line = fit_line(fitted_part)
    if line is not None:
        yield line.score(other_matrix)
    model = fit_model(fitted_part, tune=False)
    if model is not None:
        yield model.score(other_matrix)


def _candidates(
    data: TrainingSet,
    goal: CertificateGoal,
    shift: FloatArray | None,
    rng: np.random.Generator,
    start: dict[str, float] | None,
) -> Iterator[_Candidate]:
    """Yield a candidate event for each order of the outputs, from simple to complex."""
    atoms = find_atoms(data)
    few_atoms = atoms is not None and counts_suffice(len(atoms[0]), len(data.label))
    line = None if few_atoms else fit_line(data)
    if line is not None:
        yield _scored_candidate("line", line, None, data, goal, rng)
    # a model adds nothing to the counts of the atoms
    single_column = few_atoms or len(data.varying) <= 1
    if not single_column:
        yield from _shifted_candidates(data, goal, shift, rng)
    elif atoms is not None:
        prior = None
        # fewer distinct outputs have no model as prior of their odds
        if few_atoms and len(atoms[0]) >= 6:
            # atoms in an order, or with parts in common, borrow strength from each other
            prior = _model_candidate(data, fit_model(data, start=start), goal, rng)
        yield _atom_candidate(data, goal, *atoms, prior, rng)
    line_is_enough = (
        single_column and line is not None and not _subset_needs_model(data, line, goal, rng, start)
    )
    if not (few_atoms or line_is_enough):
        yield from _model_candidates(data, goal, None if single_column else atoms, rng, start)


def _shifted_candidates(
    data: TrainingSet, goal: CertificateGoal, shift: FloatArray | None, rng: np.random.Generator
) -> Iterator[_Candidate]:
    """Yield the candidates of numbers that move: by a given shift, and, if there are few outputs,
    by the differences of their medians.
    """
    for proposed in () if shift is None else fit_shift(data, shift):
        yield _scored_candidate("trace", proposed, None, data, goal, rng)
    for clear in (True, False) if len(data.label) <= _FEW_ROWS else ():
        moved = partial(fit_medians, clear=clear)
        whole, scores = moved(data), held_out_scores(data, moved)
        if whole is not None and scores is not None:
            yield _scored_candidate("medians", whole, scores, data, goal, rng)


def _model_candidates(
    data: TrainingSet,
    goal: CertificateGoal,
    atoms: tuple[FloatArray, NDArray[np.intp]] | None,
    rng: np.random.Generator,
    start: dict[str, float] | None,
) -> Iterator[_Candidate]:
    """Yield the candidates of the exact values that a model names, of the model, of the model with
    trees, and of the atoms with the model as prior.
    """
    model, model_candidate = fit_model(data, start=start), None
    if model is not None:
        exact = repeated(model.values)
        masked = (
            data
            if exact is None
            else replace(
                data, matrix=mask_other_values(data.matrix, exact), same=None, distinct=None
            )
        )
        patterns = None if exact is None else find_atoms(masked)
        if patterns is not None:
            yield _atom_candidate(masked, goal, *patterns, None, rng, exact)
        scores = held_out_scores(data, partial(fit_model, like=model))
        if scores is not None:
            model_candidate = _scored_candidate("model", model, scores, data, goal, rng)
            yield model_candidate
            boosted = None if len(data.varying) <= 1 else fit_trees(data, model, scores)
            if boosted is not None:
                yield _scored_candidate("trees", *boosted, data, goal, rng)
    if atoms is not None:
        yield _atom_candidate(data, goal, *atoms, model_candidate, rng)


def _model_candidate(
    data: TrainingSet, model: ModelScorer | None, goal: CertificateGoal, rng: np.random.Generator
) -> _Candidate | None:
    """Return the candidate of a model with thresholds from held-out scores; None without a model or
    such scores.
    """
    scores = None if model is None else held_out_scores(data, partial(fit_model, like=model))
    if model is None or scores is None:
        return None
    return _scored_candidate("model", model, scores, data, goal, rng)


def _subset_needs_model(
    data: TrainingSet,
    line: Scorer,
    goal: CertificateGoal,
    rng: np.random.Generator,
    start: dict[str, float] | None,
) -> bool:
    """Return whether a model of one number is worth its cost: on a subset of many outputs, its
    event beats a threshold on the number.
    """
    if len(data.label) <= 2 * _SUBSET_ROWS or repeated(values_of(data.matrix)) is not None:
        return True
    part = data.rows(np.arange(len(data.label)) % (len(data.label) // _SUBSET_ROWS) == 0)
    of_model = _model_candidate(part, fit_model(part, start=start), goal, rng)
    return of_model is None or _beats(
        of_model, _scored_candidate("line", line, None, part, goal, rng)
    )


def _scored_candidate(
    method: str,
    scorer: Scorer,
    held_out: FloatArray | None,
    data: TrainingSet,
    goal: CertificateGoal,
    rng: np.random.Generator,
) -> _Candidate:
    """Return the candidate of a scorer.

    The held-out scores, if there are any, determine the thresholds: they are distributed as the
    scores of new outputs, while the scorer's own scores of the outputs to which it was fitted are
    too extreme.
    """
    scores = scorer.score(data.matrix) if held_out is None else held_out
    choice, table = _choose_thresholds(scores, data.label, goal, rng)
    low, high = table.threshold(choice.lower), table.threshold(choice.upper)
    if held_out is not None:
        few = data.rows(np.arange(len(scores)) % max(1, len(scores) // _SUBSET_ROWS) == 0)
        own = scorer.score(few.matrix)
        high = _within_reach(high, held_out, own)
        low = -_within_reach(-low, -held_out, -own)
    return _Candidate(method, choice, scorer.event(low, high), scorer.event, scorer, table)


def _within_reach(high: float, held_out: FloatArray, own: FloatArray) -> float:
    """Return an upper threshold that the scorer's own scores exceed as often as the held-out ones.

    A loss may have a plateau, such as that of Laplace noise, on which many scores are nearly equal.
    The scorers of the folds have it at slightly different heights, so that a threshold just below
    one may lie above that of the final scorer, which no output would exceed.
    """
    share = float(np.mean(held_out > high))
    if share * len(own) < _LEAST_BEYOND or np.mean(own > high) > _REACHED * share:
        return high
    return float(np.quantile(own, 1 - share))


def _choose_thresholds(
    score: FloatArray, label: NDArray[np.bool_], goal: CertificateGoal, rng: np.random.Generator
) -> tuple[Choice, ScoreTable]:
    """Return the thresholds on a score with the largest expected certificate, and the counts of the
    score.
    """
    table = ScoreTable.build(score, label)

    def draw(which: int | None) -> tuple[NDArray[np.intp], PosteriorDraws]:
        part = table.half(label, which)
        return np.arange(len(part.total)), PosteriorDraws.of(
            part.total, draw_shares(part, goal, rng), rng
        )

    return validated_choice(draw, goal)[0], table


def _beats(later: _Candidate, earlier: _Candidate) -> bool:
    """Return whether the gain of a more complex order is worth its complexity: above 1 %, or above
    3 % if the simpler one is a threshold on one number, which everybody can read.
    """
    least = earlier.choice.expected
    gain = 0.03 if earlier.method == "line" else 0.01
    return later.choice.expected > least + gain * abs(least)


def _atom_candidate(
    data: TrainingSet,
    goal: CertificateGoal,
    rows: FloatArray,
    place: NDArray[np.intp],
    model: _Candidate | None,
    rng: np.random.Generator,
    exact: FloatArray | None = None,
) -> _Candidate:
    """Return the candidate that guesses on each output by its own counts.

    With a model, the prior of an output's share of D1 is the model's share for outputs of that
    score. The order of half of the data has only the outputs in that half: an event names no
    others.
    """
    cells, few = None, counts_suffice(len(rows), len(data.label))
    if model is not None:
        assert model.scorer is not None
        cells = np.searchsorted(model.table.bounds, model.scorer.score(rows), side="left")

    def draw(which: int | None) -> tuple[NDArray[np.intp], PosteriorDraws]:
        label, atom_index = (
            (data.label, place) if which is None else (data.label[which::2], place[which::2])
        )
        label, atom_index = label[atom_index >= 0], atom_index[atom_index >= 0]
        ones, total = cell_counts(atom_index, label, len(rows))
        if cells is None or model is None:
            prior = np.full((goal.thresholds[0], len(rows)), label.mean())
        else:
            prior = draw_shares(model.table.half(data.label, which), goal, rng)[:, cells]
        seen = np.flatnonzero(total)
        order, draws = draw_atoms(
            ones[seen],
            total[seen],
            # one of few atoms may be rare, and certify in few draws only
            np.clip(np.tile(prior[:, seen], (6 if few else 1, 1)), 1e-6, 1 - 1e-6),
            rng,
        )
        return seen[order], draws

    choice, order = direct_choice(draw, goal) if few else validated_choice(draw, goal)
    atom_index = np.argsort(order)[place[place >= 0]]
    ones, total = cell_counts(atom_index, data.label[place >= 0], len(rows))

    def event_at(low: float, high: float) -> Event:
        """Return the event that guesses D1 from rank `high` on, and D0 below rank `low`."""
        guesses = (ranks >= high).astype(float) - (ranks < low).astype(float)
        used = np.flatnonzero(guesses)
        listed = rows[order][used]
        names = tuple(name_of_atom(row, data.names) for row in listed)
        return Atoms(listed, guesses[used], names, exact)

    ranks, method = np.arange(len(rows), dtype=float), "atoms" if exact is None else "exact values"
    table = ScoreTable(ranks[1:], ranks, ones, total, atom_index)
    event = event_at(choice.lower, choice.upper)
    return _Candidate(method, choice, event, event_at, None, table)
