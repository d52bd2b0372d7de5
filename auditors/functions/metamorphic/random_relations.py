"""Relations of random mechanisms, each with a stated probability of a false violation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dpwitness.auditors.audit.audit import audit
from dpwitness.auditors.functions.metamorphic.relations import (
    Broken,
    Cases,
    NotRun,
    RelationOutcome,
    first_broken,
)
from dpwitness.auditors.functions.stability.search import outcome
from dpwitness.auditors.statistics.anytime import log_dependence
from dpwitness.auditors.statistics.certificate import clopper_pearson_lower
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.auditors.workers.fitness import names_environment_fault
from dpwitness.core.claims import ApproxDP, PureDP
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.protocols.mechanism import FloatArray, TookTooLong
from dpwitness.mechanisms.wrappers.programs.declared import RAISES, FailedRun

_NOTHING = 1e-9  # epsilon of a law that does not change
_RAISING = 4  # runs that confirm an exception
_CALLS = 32  # calls at each epsilon, of which half fix the distance


def zero_epsilon_is_constant(
    at_epsilon: Callable[[float], Any],
    cases: Cases,
    *,
    delta: float = 0.0,
    runs: int = 20_000,
    confidence: float = 0.9999,
    seed: int = 0,
) -> RelationOutcome:
    """Return whether the law of a mechanism with epsilon 0 is the same on both datasets of each
    case.

    Parameters
    ----------
    at_epsilon : callable
        Mechanism as a function of epsilon. One that refuses epsilon 0 with an exception satisfies
        the relation.
    cases : sequence of (dataset, dataset)
        Pairs of datasets.
    delta : float
        The delta of the claims: the laws may differ by this probability.
    runs : int
        Runs for each pair, as in `audit`.
    confidence : float
        Confidence of the verdict, over all cases.
    seed : int
        Seed of the runs.

    Returns
    -------
    RelationOutcome
        The first case with different laws.
    """
    mechanism = outcome(at_epsilon, 0.0)
    sampler = getattr(mechanism, "sample", mechanism)
    raised: list[Any] = [mechanism]
    if not isinstance(mechanism, FailedRun):
        raised = [_raises(sampler, dataset, [seed], 1) for case in cases[:1] for dataset in case]
    if raised and all(raised):
        return RelationOutcome(tried=1, notes=(f"epsilon 0 is refused: {raised[0]}",))

    def compare(first: Any, second: Any) -> Broken | None:
        found = audit(
            mechanism,
            claim=ApproxDP(_NOTHING, delta) if delta else PureDP(_NOTHING),
            pair=Pair(first, second, "stated"),
            trials=runs,
            confidence=1 - (1 - confidence) / len(cases),
            seed=seed,
            bits=False,
        )
        if found.verdict is Verdict.ERROR:
            raise NotRun
        # SUSPECT if the mechanism's own claim, which is not audited, is a guess
        if found.verdict not in (Verdict.VIOLATED, Verdict.SUSPECT):
            return None
        return f"the laws on two datasets differ: epsilon > {found.epsilon_lower:.4g} certified", ()

    return first_broken(compare, cases, error=1 - confidence)


def more_epsilon_spreads_no_more(
    at_epsilon: Callable[[float], Any],
    cases: Cases,
    *,
    runs: int = 8000,
    confidence: float = 0.9999,
    seed: int = 0,
) -> RelationOutcome:
    """Return whether outputs at twice the epsilon spread no more than outputs at epsilon.

    The relation is that of additive noise. Mechanisms with thresholds may break it: with more
    epsilon they release more.

    A case counts as failed if the runs of a call depend on each other. Half of the calls fixes a
    distance t at which the two spreads differ most. The other half counts how often two outputs are
    further apart than t; the distance of vectors is their largest coordinate, and that of outputs
    that are not numbers is 0 or 1. The relation is broken if the lower limit of this probability at
    twice the epsilon exceeds the upper limit at epsilon (Clopper and Pearson 1934).

    Parameters
    ----------
    at_epsilon : callable
        Mechanism as a function of epsilon.
    cases : sequence of (epsilon, dataset)
        Values of epsilon, with a dataset.
    runs : int
        Runs at each epsilon.
    confidence : float
        Confidence of the verdict, over all cases.
    seed : int
        Seed of the runs.

    Returns
    -------
    RelationOutcome
        The first case in which doubling epsilon adds noise.
    """

    def compare(epsilon: Any, dataset: Any) -> Broken | None:
        once, twice = (
            _distances(at_epsilon, factor * epsilon, dataset, runs, seed) for factor in (1, 2)
        )
        if once is None or twice is None:
            raise NotRun
        train = _CALLS // 2
        grid = np.quantile(np.concatenate([once[:train], twice[:train]]), np.arange(40) / 40)
        distance = float(
            max(grid, key=lambda t: float(np.mean(twice[:train] > t) - np.mean(once[:train] > t)))
        )
        beyond = [np.sum(x[train:] > distance, axis=1) for x in (once, twice)]
        counts, half = [int(each.sum()) for each in beyond], once[train:].size
        # evidence from which the runs of a call are not taken as independent
        if log_dependence(
            *(np.column_stack([each, once.shape[1] - each]) for each in beyond)
        ) > math.log(1000):
            raise NotRun
        alpha = (1 - confidence) / len(cases) / 2
        upper = 1 - float(clopper_pearson_lower(half - counts[0], half, alpha))
        if not float(clopper_pearson_lower(counts[1], half, alpha)) > upper:
            return None
        return (
            f"two outputs are more than {distance:.6g} apart in {counts[0]} of {half} pairs of "
            f"runs at epsilon = {epsilon:g}, and in {counts[1]} at epsilon = {2 * epsilon:g}",
            tuple(counts),
        )

    return first_broken(compare, cases, error=1 - confidence)


def _distances(
    at_epsilon: Callable[[float], Any], epsilon: float, dataset: Any, runs: int, seed: int
) -> FloatArray | None:
    """Return the distance of the outputs of each pair of runs, (calls, pairs); None if a run fails
    or gives a number that is not finite.
    """
    size = max(2, runs // _CALLS // 2 * 2)
    rng = np.random.default_rng([seed, 0xE5])

    def run() -> FloatArray:
        mechanism = at_epsilon(epsilon)
        return np.array(
            [
                _pair_distances(getattr(mechanism, "sample", mechanism)(dataset, size, rng), size)
                for _ in range(_CALLS)
            ]
        )

    found = outcome(run)
    return None if isinstance(found, FailedRun) or not np.all(np.isfinite(found)) else found


def _pair_distances(outputs: Any, size: int) -> FloatArray:
    """Return the distance of each two consecutive outputs of a call."""
    try:
        found = np.asarray(outputs, dtype=float).reshape(size, -1)
    except (TypeError, ValueError):
        return np.array(
            [
                float(repr(one) != repr(other))
                for one, other in zip(outputs[0::2], outputs[1::2], strict=True)
            ]
        )
    return np.asarray(np.max(np.abs(found[0::2] - found[1::2]), axis=1))


def errors_ignore_one_record(
    mechanism: Any,
    cases: Cases,
    *,
    epsilon: float = 0.0,
    delta: float = 0.0,
    error: float = 1e-6,
    seed: int = 0,
) -> RelationOutcome:
    """Return whether a mechanism raises on one of two neighboring datasets and not on the other.

    An exception is an output. If it has probability p on one dataset, an (epsilon, delta)-private
    mechanism raises on the other with probability at least q e^-epsilon, where q is p - delta. So m
    exceptions in m runs, and none in n runs on the other dataset, have a probability of at most the
    maximum over q of (q + delta)^m (1 - q e^-epsilon)^n. Here m is 4, because an exception may cost
    a process, and n makes this at most `error`, over all cases and both orders. Exceptions that the
    environment causes, and runs that take too long, do not count.

    Parameters
    ----------
    mechanism : Mechanism or callable
        Object with ``sample(dataset, size, rng)``, or a function of these arguments.
    cases : sequence of (dataset, dataset)
        Pairs of neighboring datasets.
    epsilon, delta : float
        Privacy that is claimed. Default 0: the probability of an exception is the same on both
        datasets.
    error : float
        Probability of a false violation.
    seed : int
        Seed of the runs.

    Returns
    -------
    RelationOutcome
        The first case in which an exception depends on one record.
    """
    sampler, allowed = (
        getattr(mechanism, "sample", mechanism),
        math.log(error / (2 * max(len(cases), 1))),
    )
    # largest number of runs that confirm that a dataset raises no exception
    runs = next((n for n in range(1, 10_000) if _log_chance(n, epsilon, delta) <= allowed), None)
    if runs is None:
        return RelationOutcome(
            notes=(
                f"epsilon = {epsilon:g} allows an exception on one dataset and none on the "
                "other: not compared",
            )
        )
    numbers = itertools.count()

    def compare(*case: Any) -> Broken | None:
        index = next(numbers)
        quiet = [_raises(sampler, each, [seed, index, side], 1) for side, each in enumerate(case)]
        if (quiet[0] is None) is (quiet[1] is None):
            return None
        counts = [runs if found is None else _RAISING for found in quiet]
        again = [
            _raises(sampler, dataset, [seed, index, side, 1], counts[side])
            for side, dataset in enumerate(case)
        ]
        raised = next((found for found in again if found is not None), None)
        if raised is None or not raised.text or None not in again:
            return None
        return f"one of two neighboring datasets raises {raised.text}", tuple(again)

    return first_broken(compare, cases, error=error)


def _log_chance(quiet: int, epsilon: float, delta: float = 0.0) -> float:
    """Return the log of the largest probability that all runs on one dataset raise and none of
    `quiet` runs on the other does.
    """
    q = min(
        max((_RAISING * math.exp(epsilon) - quiet * delta) / (_RAISING + quiet), 0.0), 1.0 - delta
    )
    return (
        _RAISING * math.log(q + delta) + quiet * math.log1p(-q * math.exp(-epsilon))
        if q + delta > 0
        else -math.inf
    )


def _raises(
    sampler: Callable[..., Any], dataset: Any, seed: list[int], runs: int
) -> FailedRun | None:
    """Return the exception of a dataset if every run raises, None if no run does, and FailedRun
    without text otherwise.
    """
    found = [
        outcome(sampler, dataset, 1, np.random.default_rng([*seed, run])) for run in range(runs)
    ]
    raised = [item for item in found if isinstance(item, FailedRun)]
    if not raised:
        return None
    counts = len(raised) == runs and not any(
        item.name == TookTooLong.__name__
        # an exception of a worker has its class and message in its text
        or names_environment_fault(
            *item.text.removeprefix("MechanismFailed: ").partition(": ")[::2]
        )
        for item in raised
    )
    return raised[0] if counts else FailedRun(RAISES, "")
