"""Benchmark of the white-box audits: enclosures, pairs found by search, and attained sensitivities.

A search gets the mechanism and its domain only. A value that must be hit exactly is measured by the
distance from it, which must be small.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

from dpwitness import ApproxDP, Pair, audit, audit_sensitivity, certify
from dpwitness import mechanisms as m
from dpwitness.auditors import search, worst_output
from dpwitness.auditors.density.routes import composed, enclosed_law
from dpwitness.auditors.statistics.loss_law import EnclosedLaw
from dpwitness.benchmarks.specimens import PAIR
from dpwitness.benchmarks.table import Row, Table, root_seed, seed_note
from dpwitness.core.numerics.solvers import Problem, minimise

_MANY = 10**7  # number of records for claims that hold for any number of records
_CROWD = 10**12  # number of records at which finite-sample effects vanish


def _objective(dimension: int, records: int) -> m.LogisticObjectivePerturbation:
    """Return objective perturbation with eps = .1, n lambda = .1 and Gamma noise."""
    return m.LogisticObjectivePerturbation(0.1, 0.1 / records, dimension=dimension, records=records)


# Mechanism, and maximum number of evaluations of the search.
SEARCHES: dict[str, tuple[Any, int]] = {
    "CM08 Algorithm 2, d=1, n=1": (_objective(1, 1), 800),
    "CM08 Algorithm 2, d=2, n free": (_objective(2, _MANY), 4000),
    "CM08 Algorithm 1, printed noise, d=2": (
        m.LogisticOutputPerturbation(1.0, 0.1, noise="laplace_radius_std", dimension=2),
        800,
    ),
    "JT14 objective, gamma, Huber": (
        m.GLMObjectivePerturbation(loss=m.Loss("huber"), epsilon=1.0, dimension=1),
        800,
    ),
    "output perturbation, Gamma noise, d=3, hinge": (
        m.GLMOutputPerturbation(loss=m.Loss("hinge"), epsilon=1.0, dimension=3, regularization=1.0),
        200,
    ),
    "output perturbation, Gamma noise, d=3, logistic": (
        m.LogisticOutputPerturbation(1.0, 1e-8, dimension=3, records=_CROWD),
        1500,
    ),
    "Laplace": (m.zoo()["laplace"], 800),
    "exponential mechanism": (m.zoo()["exponential"], 800),
}


def _ball_audit(mechanism: Any, pair: Pair, seed: int) -> float:
    """Return the bound of a black-box audit that confirms the violation by the printed noise, on
    fresh randomness.

    The event is a ball around the worst output that the search finds. About ten outputs on the
    rarer side decide, and the bound of one seed has a spread of .3, so the median of three seeds is
    returned.
    """
    center = worst_output(mechanism, pair, seed=seed).output
    distance = ("distance", lambda outputs: np.linalg.norm(outputs - center, axis=1))
    return median(
        audit(
            mechanism, pair=pair, scores=[distance], trials=2_000_000, bits=False, seed=each
        ).epsilon_lower
        for each in range(seed, seed + 3)
    )


def _minimizer(loss: m.Loss, regularization: float) -> Callable[[m.LabelledVectors], Any]:
    """Return a function that computes the minimizer of regularization/2 |w|^2 + mean loss, with its
    certified radius.
    """
    return lambda dataset: minimise(Problem.of(dataset, loss, regularization * dataset.n))


# Function, bound 2 L R / (lambda n), domain, evaluations.
SENSITIVITIES: dict[str, tuple[m.Loss, float, m.LabelledBall, int]] = {
    "hinge": (m.Loss("hinge"), 1.0, m.LabelledBall(2, 1), 1000),
    "absolute": (m.Loss("absolute"), 0.1, m.LabelledBall(2, 1, (-10, 10)), 1000),
    "Huber, h=1, n lambda=1": (m.Loss("huber"), 1.0, m.LabelledBall(2, 1, (-10, 10)), 1000),
    "logistic, d=1": (m.Loss("logistic"), 1e-8, m.LabelledBall(1, _CROWD), 4000),
    "logistic, d=2": (m.Loss("logistic"), 1e-8, m.LabelledBall(2, _CROWD), 4000),
}


def _composed_law(mechanism: Any, times: int) -> EnclosedLaw | None:
    """Return the enclosed privacy-loss law of a composition of identical mechanisms."""
    pair = mechanism.worst_pair()
    return composed([(mechanism, pair.d0, pair.d1)] * times)


def _softmax_law(seed: int) -> EnclosedLaw | None:
    """Return the enclosed privacy-loss law of 1000 different softmax draws."""
    rng, draw = np.random.default_rng(seed), m.SoftmaxDraw(5)
    return composed(
        [(draw, w := rng.normal(size=5), w + 0.05 * rng.normal(size=5)) for _ in range(1000)]
    )


ENCLOSURES: dict[str, Callable[[int], EnclosedLaw | None]] = {
    "Laplace vector of 20": lambda _: enclosed_law(
        m.LaplaceVector(1.0), m.LaplaceVector(1.0).spread_pair()
    ),
    "1000 Gaussians": lambda _: _composed_law(m.Gaussian(1.0, 1e-5, noise_multiplier=10.0), 1000),
    "1000 Laplace": lambda _: _composed_law(m.Laplace(0.1), 1000),
    "1000 different softmax draws": _softmax_law,
}


def _relative_width(law: EnclosedLaw | None) -> float:
    """Return the width of the enclosure of epsilon at delta = 1e-5, divided by its upper bound."""
    assert law is not None
    low, high = law.lower.epsilon(1e-5), law.upper.epsilon(1e-5)
    return (high - low) / high


def _distance_row(name: str, target: float, tolerance: float, found: float) -> Row:
    """Return the row of the distance from a target value."""
    return Row(
        f"{name}: distance from {target:.6g}",
        tolerance,
        abs(found - target),
        "distance",
        at_most=True,
    )


def _search_rows(seed: int) -> list[Row]:
    """Return the rows of the searches for pairs."""
    single_record, many_records, printed_noise, huber, *correct = SEARCHES
    worst = {
        name: search(
            each, each.domain, each.claim, evaluations=evaluations, seconds=60.0, seed=seed
        )[0]
        for name, (each, evaluations) in SEARCHES.items()
    }
    losses = {name: loss for name, (_, loss) in worst.items()}
    in_ball = _ball_audit(SEARCHES[printed_noise][0], worst[printed_noise][0], seed)
    truth = SEARCHES[many_records][0].truth.parameter
    rows = [
        _distance_row(f"{single_record}, found", 1.228, 1e-3, losses[single_record]),
        Row(f"{many_records}, found", 1.30, losses[many_records], "epsilon"),
        Row(
            f"{many_records}, over its supremum",
            1 + 1e-9,
            losses[many_records] / truth,
            "ratio",
            at_most=True,
        ),
        Row(f"{printed_noise}, found", math.inf, losses[printed_noise], "epsilon"),
        Row(f"{printed_noise}, certified in a ball", 4.0, in_ball, "epsilon"),
        _distance_row(f"{huber}, found", 1 + math.log(1.5), 1e-3, losses[huber]),
    ]
    for name in correct:
        # hinge loss has half of the sensitivity that its claim assumes
        tight, claimed = 0.5 if "hinge" in name else 1.0, SEARCHES[name][0].claim.parameter
        rows += [
            Row(f"{name}, over its truth", 0.95, losses[name] / tight, "ratio"),
            Row(f"{name}, over its claim", 1 + 1e-9, losses[name] / claimed, "ratio", at_most=True),
        ]
    return rows


def _sensitivity_rows(seed: int) -> list[Row]:
    """Return the rows of the searches for the largest change of a regularized minimizer."""
    ratios, seconds = dict[str, float](), list[float]()
    for name, (loss, lam, domain, evaluations) in SENSITIVITIES.items():
        started, function = time.process_time(), _minimizer(loss, lam)
        bound = 2 / (domain.size * lam)
        result = audit_sensitivity(function, bound, domain, evaluations=evaluations, seed=seed)
        ratios[name] = result.ratio
        seconds.append(time.process_time() - started)
    *tight_names, line, plane = ratios
    return [
        *(_distance_row(f"sensitivity, {name}", 1.0, 5e-4, ratios[name]) for name in tight_names),
        _distance_row(f"sensitivity, {line}", 0.5257, 5e-4, ratios[line]),
        Row(f"sensitivity, {plane}", 0.98, ratios[plane], "ratio"),
        Row("sensitivities, longest search", 60.0, max(seconds), "CPU s", at_most=True),
    ]


def measure(seed: int | None = None) -> Table:
    """Run the benchmark of the white-box audits and return its table, in about half a minute."""
    seed = root_seed(seed)
    notes = (
        seed_note("white-box", seed),
        "searches get the mechanism and its domain only; a distance row shows the distance "
        "of the result from the named value",
    )
    # the calibrated Gaussian, whose epsilon is exactly 1
    name, gaussian, claim = "Gaussian (1, 1e-5)", m.Gaussian(1.0, 1e-5), ApproxDP(1.0, 1e-5)
    sampled, law = (
        certify(gaussian, PAIR, claim, trials=100_000, route=route, seed=seed)
        for route in ("sampling", "law")
    )
    rows = (
        Row(f"{name}, 1e5 runs, at least", 0.998, sampled.epsilon_lower, "epsilon"),
        Row(f"{name}, 1e5 runs, at most", 1.002, sampled.epsilon_upper, "epsilon", at_most=True),
        _distance_row(f"{name}, law, at least", 1.0, 1e-9, law.epsilon_lower),
        _distance_row(f"{name}, law, at most", 1.0, 1e-9, law.epsilon_upper),
        *_search_rows(seed),
        *_sensitivity_rows(seed),
        *(
            Row(f"width over epsilon, {each}", 0.01, _relative_width(of(seed)), "ratio", True)
            for each, of in ENCLOSURES.items()
        ),
    )
    return Table("white-box", rows, notes)
