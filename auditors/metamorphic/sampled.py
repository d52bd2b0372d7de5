"""Relations of random mechanisms, each with a stated probability of a false violation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dpwitness.auditors.black_box.audit import audit
from dpwitness.auditors.metamorphic.outputs import Raised, outcome
from dpwitness.auditors.metamorphic.relations import Cases, Outcome
from dpwitness.auditors.results.audit_result import AuditResult
from dpwitness.auditors.results.verdicts import Verdict
from dpwitness.mechanisms.data.pairs import Pair
from dpwitness.mechanisms.privacy import PureDP
from dpwitness.mechanisms.protocols.mechanism import FloatArray

_NOTHING = 1e-9  # epsilon of a law that does not change
_MOST_RUNS = 10_000  # largest number of runs that confirm an exception


def zero_epsilon_is_constant(
    at_epsilon: Callable[[float], Any], cases: Cases, *, runs: int = 20_000, confidence: float = 0.9999, seed: int = 0
) -> Outcome:
    """Return whether the law of a mechanism with epsilon 0 is the same on both datasets of each case.

    Parameters
    ----------
    at_epsilon : callable
        Mechanism as a function of epsilon. One that refuses epsilon 0 with an exception satisfies the relation.
    cases : sequence of (dataset, dataset)
        Pairs of datasets.
    runs : int
        Runs for each pair, as in `audit`.
    confidence : float
        Confidence of the verdict, over all cases.
    seed : int
        Seed of the runs.

    Returns
    -------
    Outcome
        The first case with different laws.
    """
    mechanism = outcome(at_epsilon, 0.0)
    if isinstance(mechanism, Raised):
        return Outcome(tried=1, notes=(f"epsilon 0 is refused: {mechanism.text}",))
    tried = failed = 0
    for case in cases:
        raised = [_raises(getattr(mechanism, "sample", mechanism), dataset, [seed], 1) for dataset in case]
        if all(raised):
            return Outcome(tried=1, notes=(f"epsilon 0 is refused: {raised[0]}",))
        found = _law_audit(mechanism, case, runs, 1 - (1 - confidence) / len(cases), seed)
        if found.verdict is Verdict.ERROR:
            failed += 1
            continue
        tried += 1
        if found.verdict is Verdict.VIOLATED:
            finding = f"the laws on two datasets differ: {found.headline()}"
            return Outcome(finding, tuple(case), (), 1 - confidence, tried, failed)
    return Outcome(tried=tried, failed=failed)


def _law_audit(mechanism: Any, case: Sequence[Any], runs: int, confidence: float, seed: int) -> AuditResult:
    pair = Pair(case[0], case[1], "stated")
    return audit(mechanism, claim=PureDP(_NOTHING), pair=pair, trials=runs, confidence=confidence, seed=seed, bits=False)


def more_epsilon_spreads_no_more(
    at_epsilon: Callable[[float], Any], cases: Cases, *, runs: int = 4000, confidence: float = 0.9999, seed: int = 0
) -> Outcome:
    """Return whether outputs at twice the epsilon spread no more than outputs at epsilon.

    Half of the runs fixes a distance t, the median distance of two outputs at epsilon. The other half counts how often two outputs are
    further apart than t. The relation is broken if the lower limit of this probability at twice the epsilon exceeds the upper limit at
    epsilon (Clopper and Pearson 1934).

    Parameters
    ----------
    at_epsilon : callable
        Mechanism with numbers as outputs, as a function of epsilon.
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
    Outcome
        The first case in which doubling epsilon adds noise.
    """
    tried = failed = 0
    for case in cases:
        epsilon, dataset = case
        samples = [_numbers(at_epsilon, factor * epsilon, dataset, runs, seed) for factor in (1, 2)]
        if samples[0] is None or samples[1] is None:
            failed += 1
            continue
        tried += 1
        once, twice = (np.abs(x[0::2] - x[1::2]) for x in samples if x is not None)
        half = len(once) // 2
        distance = float(np.median(once[:half]))
        counts = [int(np.sum(x[half:] > distance)) for x in (once, twice)]
        alpha = (1 - confidence) / len(cases) / 2
        upper, lower = _limit(counts[0], half, alpha, True), _limit(counts[1], half, alpha, False)
        if lower > upper:
            finding = (
                f"two outputs are more than {distance:.6g} apart in {counts[0]} of {half} pairs of runs at epsilon = {epsilon:g}, and in "
                f"{counts[1]} at epsilon = {2 * epsilon:g}"
            )
            return Outcome(finding, tuple(case), tuple(counts), 1 - confidence, tried, failed)
    return Outcome(tried=tried, failed=failed)


def _numbers(at_epsilon: Callable[[float], Any], epsilon: float, dataset: Any, runs: int, seed: int) -> FloatArray | None:
    """Return the first number of each output; None if a run fails or has no number."""

    def run() -> FloatArray:
        mechanism = at_epsilon(epsilon)
        sampler = getattr(mechanism, "sample", mechanism)
        outputs = np.asarray(sampler(dataset, runs, np.random.default_rng([seed, 0xE5])), dtype=float)
        return outputs.reshape(runs, -1)[:, 0]

    found = outcome(run)
    return None if isinstance(found, Raised) or not np.all(np.isfinite(found)) else found


def _limit(count: int, total: int, alpha: float, upper: bool) -> float:
    """Return a Clopper-Pearson limit."""
    from scipy.stats import beta

    if upper:
        return 1.0 if count == total else float(beta.ppf(1 - alpha, count + 1, total - count))
    return 0.0 if count == 0 else float(beta.ppf(alpha, count, total - count + 1))


def errors_ignore_one_record(mechanism: Any, cases: Cases, *, epsilon: float = 0.0, error: float = 1e-6, seed: int = 0) -> Outcome:
    """Return whether a mechanism raises on one of two neighboring datasets and not on the other.

    An exception is an output. For a mechanism that is epsilon-private, n exceptions on one dataset and none in n runs on the other have a
    probability of at most (e^epsilon / (1 + e^epsilon))^(2 n). The number of runs is chosen so that this is at most `error`, over all cases
    and both orders.

    Parameters
    ----------
    mechanism : Mechanism or callable
        Object with ``sample(dataset, size, rng)``, or a function of these arguments.
    cases : sequence of (dataset, dataset)
        Pairs of neighboring datasets.
    epsilon : float
        Privacy that is claimed. Default 0: the probability of an exception is the same on both datasets.
    error : float
        Probability of a false violation.
    seed : int
        Seed of the runs.

    Returns
    -------
    Outcome
        The first case in which an exception depends on one record.
    """
    sampler = getattr(mechanism, "sample", mechanism)
    runs = math.ceil(math.log(2 * max(len(cases), 1) / error) / (2 * math.log1p(math.exp(-epsilon))))
    if runs > _MOST_RUNS:
        return Outcome(notes=(f"epsilon = {epsilon:g} allows an exception on one dataset and none on the other: not compared",))
    for index, case in enumerate(cases):
        outputs = [_raises(sampler, dataset, [seed, index, side], 1) for side, dataset in enumerate(case)]
        if (outputs[0] is None) is (outputs[1] is None):
            continue
        again = [_raises(sampler, dataset, [seed, index, side, 1], runs) for side, dataset in enumerate(case)]
        raised = next((found for found in again if found is not None), None)
        if raised is not None and raised.text and None in again:
            return Outcome(f"one of two neighboring datasets raises {raised.text}", tuple(case), tuple(again), error, index + 1)
    return Outcome(tried=len(cases))


def _raises(sampler: Callable[..., Any], dataset: Any, seed: list[int], runs: int) -> Raised | None:
    """Return the exception of a dataset if every run raises, None if no run does, and Raised without text if some do."""
    found = [outcome(sampler, dataset, 1, np.random.default_rng([*seed, run])) for run in range(runs)]
    raised = [item for item in found if isinstance(item, Raised)]
    if not raised:
        return None
    return raised[0] if len(raised) == runs else Raised("", "")
