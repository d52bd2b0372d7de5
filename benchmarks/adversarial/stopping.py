"""Attacks by optional stopping and selection.

Audits are extended by a person who sees the counts, and witnesses are made with searched seeds.
"""

from __future__ import annotations

import math
import tempfile
from bisect import bisect_left
from functools import partial
from pathlib import Path
from typing import Any

from numpy.random import Generator
from scipy.stats import binom, norm

from dpwitness import Verdict, audit, replay
from dpwitness.auditors.audit.result import AuditResult
from dpwitness.auditors.statistics.certificate import Part, Tally
from dpwitness.auditors.statistics.combination import (
    combined_bound,
    reweight_for_extension,
    shares_spent,
)
from dpwitness.auditors.witnesses.seals import seal
from dpwitness.benchmarks.adversarial.attack import (
    PAIR,
    RATE_RUNS,
    Attack,
    Outcome,
    false_alarm,
    response,
    seed_of,
)
from dpwitness.mechanisms import PureDP

EXTENSIONS = 6  # number of extensions in attacks on counts
_MAX_GROWTH = 50.0  # largest factor by which an extension multiplies the rounds
_STORE_EXTENSIONS = 3  # number of extensions in attacks through the store
_MAX_ROUNDS = 10**12  # maximum rounds of one extension in attacks on counts


def extended(parts: list[Part]) -> list[Part]:
    """Return the parts at the start of an extension; rounds of the extension are added to the last
    part.
    """
    return [*reweight_for_extension(parts), Part(Tally(0, 0, 0, parts[-1].tally.directions))]


def stated(alpha: float, extensions: int) -> float:
    """Return the total error probability that an audit states for its first verdict and all its
    extensions.
    """
    return alpha * shares_spent(extensions)


def level(alpha: float, number: int) -> float:
    """Return the error of the statement of extension `number`; 0 is the original plan."""
    return stated(alpha, number) - (stated(alpha, number - 1) if number else 0.0)


def _rounds_to_significance(right: int, rounds: int, share: float, alpha: float) -> int:
    """Return the number of rounds after which the observed deviation would be significant.

    Without a deviation in favor of a violation, or if the number is too large, the rounds grow by
    the factor `_MAX_GROWTH`.
    """
    z = (right - rounds * share) / math.sqrt(rounds * share * (1 - share))
    return int(rounds * min((float(norm.isf(alpha)) / z) ** 2 if z > 0 else math.inf, _MAX_GROWTH))


def extended_counts(alpha: float, rng: Generator) -> str:
    """Attack the counts of randomized response at its claim, and return a description of the false
    alarm, or "".

    Each extension has the length at which the observed deviation would suffice for a violation.
    """
    epsilon, rounds = float(rng.uniform(0.3, 2.0)), int(10 ** rng.uniform(3, 4))
    right_share, claim = 1 / (1 + math.exp(-epsilon)), PureDP(epsilon)
    right = int(rng.binomial(rounds, right_share))
    parts, first = [Part(Tally(right, rounds - right, rounds))], rounds
    for number in range(EXTENSIONS + 1):
        if combined_bound(claim, parts, level(alpha, number)) > epsilon:
            return (
                f"response {epsilon:.3f}, {first} rounds at first, {rounds} after extension "
                f"{number}"
            )
        target_rounds = _rounds_to_significance(
            right, rounds, right_share, level(alpha, number + 1)
        )
        more = min(max(target_rounds - rounds, 1 + rounds // 20), _MAX_ROUNDS)
        added = int(rng.binomial(more, right_share))
        right, rounds = right + added, rounds + more
        parts = extended(parts)
        parts[-1] = parts[-1].plus(Tally(added, more - added, more), 0)
    return ""


def exact_extension(rng: Generator) -> str:
    """Compute the exact error of one extension, and return a description if the error is too large,
    otherwise "".

    The attacker chooses the best of a few lengths for each count. All counts are enumerated, at
    error probabilities down to 1e-9.
    """
    alpha, epsilon = float(rng.choice([0.05, 0.01, 1e-9])), float(rng.uniform(0.5, 1.5))
    share, claim = 1 / (1 + math.exp(-epsilon)), PureDP(epsilon)
    rounds = int(rng.integers(60, 161)) + int(math.log(alpha) / math.log(share))
    lengths = [max(8, int(rounds * factor)) for factor in 2 ** rng.uniform(-2, 3, 3)]
    error = 0.0
    for right in range(int(rounds * share), rounds + 1):
        mass = float(binom.pmf(right, rounds, share))
        parts = [Part(Tally(right, rounds - right, rounds))]
        if mass < alpha * 1e-4:
            continue
        accused = combined_bound(claim, parts, alpha) > epsilon
        error += mass * (
            1.0
            if accused
            else max(
                _violation_probability(claim, parts, length, level(alpha, 1), share)
                for length in lengths
            )
        )
    return (
        ""
        if error <= stated(alpha, 1)
        else f"error {error:.4g} at alpha {alpha:g}, response {epsilon:.3f}, {rounds} rounds"
    )


def _violation_probability(
    claim: PureDP, parts: list[Part], length: int, alpha: float, share: float
) -> float:
    """Return the probability that an extension of this length ends in a violation.

    A violation is monotone in the number of correct guesses.
    """

    def accuses(added: int) -> bool:
        longer = extended(parts)
        longer = [*longer[:-1], longer[-1].plus(Tally(added, length - added, length), 0)]
        return combined_bound(claim, longer, alpha) > claim.epsilon

    threshold = bisect_left(range(length + 1), True, key=accuses)
    return float(binom.sf(threshold - 1, length, share))


def extended_store(rng: Generator) -> str:
    """Attack `audit` through its store, and return a description of the false alarm, or "".

    Each extension has the length that the counts of the last result suggest.
    """
    epsilon, alpha = float(rng.uniform(0.5, 1.5)), 0.2
    mechanism, share = response(epsilon), 1 / (1 + math.exp(-epsilon))
    settings: dict[str, Any] = {
        "claim": PureDP(epsilon),
        "pair": PAIR,
        "trials": 1000,
        "confidence": 1 - alpha,
        "seed": seed_of(rng),
    }
    with tempfile.TemporaryDirectory() as folder:
        file, total = Path(folder) / "life.db", 1000
        result = audit(mechanism, **settings, store=file)
        for number in range(1, _STORE_EXTENSIONS + 1):
            if result.verdict is Verdict.VIOLATED or result.tally is None:
                break
            counts = [result.tally, *(part.tally for part in result.stages)]
            right, wrong = max(((tally.correct, tally.wrong) for tally in counts), key=sum)
            target_rounds = _rounds_to_significance(
                right, right + wrong, share, level(alpha, number)
            )
            total = min(max(total + target_rounds - right - wrong, total + 200), 6000 + total)
            result = audit(mechanism, **settings, store=file, extend_to=total)
    return false_alarm(result, f"response {epsilon:.3f}, extended to {total} runs")


def searched_seed(rng: Generator) -> Outcome:
    """Attack `replay`: the author of a witness tries seeds until the audit and the replay of a
    correct mechanism report a violation.
    """
    epsilon, confidence = float(rng.uniform(0.5, 1.5)), float(rng.choice([0.5, 0.8]))
    mechanism, claim = response(epsilon), PureDP(epsilon)
    settings: dict[str, Any] = {
        "claim": claim,
        "pair": PAIR,
        "trials": 1000,
        "confidence": confidence,
        "bits": False,
        "stop": "never",
    }
    for _ in range(40):
        result = audit(mechanism, **settings, seed=int(rng.integers(2**31)))
        if result.witness is not None:
            break
    else:
        return Outcome("", 0.0)
    witness, tried = result.witness, 0
    while tried < 12:
        tried += 1
        if replay(witness, mechanism=mechanism).verdict is Verdict.VIOLATED:
            break
        witness = seal({**witness, "seed": int(rng.integers(2**31))})
    confirmed = replay(witness, mechanism=mechanism)
    assert isinstance(confirmed, AuditResult)
    return Outcome(
        false_alarm(confirmed, f"response {epsilon:.3f}, confirmed after {tried} seeds"),
        1 - confirmed.confidence,
    )


ATTACKS = (
    Attack(
        "optional stopping of extensions, alpha .05",
        partial(extended_counts, 0.05),
        stated(0.05, EXTENSIONS),
        3000,
    ),
    Attack(
        "optional stopping of extensions, alpha .01",
        partial(extended_counts, 0.01),
        stated(0.01, EXTENSIONS),
        3000,
    ),
    Attack(
        "optional stopping of one extension, exact, alpha down to 1e-9",
        exact_extension,
        runs=RATE_RUNS,
    ),
    Attack(
        "optional stopping of extensions in a store, alpha .2",
        extended_store,
        stated(0.2, _STORE_EXTENSIONS),
        RATE_RUNS,
    ),
    Attack("witness with a searched seed confirmed", searched_seed, 0.5, 200),
)
