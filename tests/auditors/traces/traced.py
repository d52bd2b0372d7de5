"""Mechanisms with faults that a trace must find, and twins without them. Imported by name:
primitives are replaced in their module.
"""

import random

import numpy as np

from dpwitness import Pair

EPSILON = 1.0
PAIR = Pair(
    np.array([0.0, 0.5, 0.25, 0.5]),
    np.array([1.0, 0.5, 0.25, 0.5]),
    "replace-one",
    "the first record",
)


def kinds(result):
    """Return the kinds of the findings of a trace."""
    return {finding.kind for finding in result.findings}


def laplace_mechanism(value, sensitivity, epsilon, rng, weights=None):
    """Adds Laplace noise to a number or to several."""
    return value + rng.laplace(0.0, sensitivity / epsilon, np.shape(value))


def weak_mechanism(value, sensitivity, epsilon, rng):
    """The same, but the noise is ten times too small."""
    return value + rng.laplace(0.0, 0.1 * sensitivity / epsilon, np.shape(value))


def two_inputs(first, second, epsilon, rng):
    """Noise on two numbers in one call."""
    return first + rng.laplace(0.0, 2 / epsilon), second + rng.laplace(0.0, 2 / epsilon)


class Ledger:
    """An accountant."""

    def charge(self, epsilon):
        """Take note of a release."""


LEDGER = Ledger()
MECHANISM = {
    "law": "laplace",
    "input": "value",
    "scale": "sensitivity / epsilon",
    "sensitivity": "sensitivity",
    "epsilon": "epsilon",
}
PRIMITIVES = {
    laplace_mechanism: MECHANISM,
    weak_mechanism: MECHANISM,
    two_inputs: {
        "law": "laplace",
        "input": "[first, second]",
        "scale": "2 / epsilon",
        "sensitivity": "2",
        "epsilon": "epsilon",
    },
    f"{__name__}.Ledger.charge": {"law": "spend", "epsilon": "epsilon"},
}


def many(run, name=None):
    """Return a mechanism of independent runs of a function of (data, rng), under the name of the
    function or another.
    """

    def sample(dataset, size, rng):
        return [run(dataset, rng) for _ in range(size)]

    sample.__name__ = sample.__qualname__ = name or run.__name__
    return sample


def total(data, low=0.0, high=1.0):
    return float(np.clip(data, low, high).sum())


@many
def right(data, rng):
    return laplace_mechanism(total(data), 1.0, EPSILON, rng)


@many
def weak_noise(data, rng):
    return weak_mechanism(total(data), 1.0, EPSILON, rng)


@many
def own_generator(data, rng):
    chosen = np.random.default_rng().choice(len(data), 3, replace=False)
    return laplace_mechanism(total(data[chosen]), 1.0, EPSILON, rng)


def own_constant_generator(data, rng):
    chosen = np.random.default_rng(0).permutation(np.arange(40))[:3] % len(data)
    return laplace_mechanism(total(data[chosen]), 1.0, EPSILON, rng)


_cached = np.random.PCG64(7)


def halves(data, rng, calls):
    """Mean of releases of half the budget each."""
    return sum(laplace_mechanism(total(data), 1.0, EPSILON / 2, rng) for _ in range(calls)) / calls


def mean_without(data, rng, replace):
    """Mean of the records, of which those above 0.9 are replaced."""
    return laplace_mechanism(
        float(np.mean(np.where(data > 0.9, replace, data))), 1.0 / len(data), EPSILON, rng
    )


def weighted(data, rng, weight):
    """A parameter of 2,000 numbers that differs in one place."""
    weights = np.ones(2000)
    weights[1500] = weight
    return laplace_mechanism(0.0, 1.0, EPSILON, rng, weights)


def raises_if(data, rng, wrong):
    if wrong:
        raise ValueError("refused")
    return laplace_mechanism(total(data), 1.0, EPSILON, rng)


def with_counter(data, rng, *charged):
    """A release and a count, of which the accountant is told some."""
    for epsilon in charged:
        LEDGER.charge(epsilon)
    found = laplace_mechanism(total(data), 1.0, EPSILON / 2, rng)
    return found, laplace_mechanism(float((data > 0.5).sum()), 1.0, EPSILON / 4, rng)


FAULTS = {  # name: run, kinds of which one must be found
    "fewer_calls": (lambda d, r: halves(d, r, 2 if d[0] > 0.5 else 1), {"CALLS"}),
    "nan_input": (lambda d, r: mean_without(d, r, np.nan), {"SENSITIVITY"}),
    "long_parameter": (lambda d, r: weighted(d, r, d[0]), {"PARAMETER"}),
    "second_of_two": (lambda d, r: two_inputs(1.0, 30 * float(d[0]), EPSILON, r), {"SENSITIVITY"}),
    "raw_added": (
        lambda d, r: laplace_mechanism(total(d), 1.0, EPSILON, r) + 100 * d[0],
        {"OUTPUT"},
    ),
    "weak_noise": (lambda d, r: weak_noise(d, 1, r)[0], {"NOISE"}),
    "add_remove_sensitivity": (
        lambda d, r: laplace_mechanism(2 * total(d) - len(d), 1.0, EPSILON, r),
        {"SENSITIVITY"},
    ),
    "own_generator": (lambda d, r: own_generator(d, 1, r)[0], {"SOURCE"}),
    "own_constant_generator": (own_constant_generator, {"SOURCE"}),
    "hidden_generator": (
        lambda d, r: (
            laplace_mechanism(total(d), 1.0, EPSILON, r) + 1e-3 * (_cached.random_raw() % 1000)
        ),
        {"SOURCE"},
    ),
    "first_randomness_too_large": (
        lambda d, r: laplace_mechanism(total(d) * (1 + 5 * random.random()), 1.0, EPSILON, r),
        {"SENSITIVITY"},
    ),
    "iterations": (
        lambda d, r: sum(r.laplace(0.0, 1 / EPSILON) for _ in range(1 + int(5 * d[0]))),
        {"CALLS"},
    ),
    "clipped_late": (
        lambda d, r: float(np.clip(10 * d.sum(), 0, 50)) + r.laplace(0.0, 1 / EPSILON),
        {"LOSS"},
    ),
    "inferred_bound": (
        lambda d, r: laplace_mechanism(total(d, 0, d.max()), float(d.max()), EPSILON, r),
        {"PARAMETER", "SCALE"},
    ),
    "data_scale": (lambda d, r: total(d) + r.laplace(0.0, 1.0 + float(np.std(d))), {"SCALE"}),
    "raises_on_one": (lambda d, r: raises_if(d, r, d[0] > 0.9), {"EXCEPTION"}),
    "missed_counter": (lambda d, r: with_counter(d, r, EPSILON / 2), {"ACCOUNT"}),
    "charges_the_largest": (
        lambda d, r: [laplace_mechanism(total(d), 1.0, e, r) for e in (EPSILON, EPSILON / 2)],
        {"LOSS"},
    ),
}
TWINS = {  # the same without the fault; that of some is `right`
    "as_many_calls": lambda d, r: halves(d, r, 2),
    "nan_dropped": lambda d, r: mean_without(d, r, 0.0),
    "long_constant": lambda d, r: weighted(d, r, 1.0),
    "two_of_two": lambda d, r: two_inputs(1.0, float(d[0]), EPSILON, r),
    "constant_added": lambda d, r: laplace_mechanism(total(d), 1.0, EPSILON, r) + 100.0,
    "replace_sensitivity": lambda d, r: laplace_mechanism(2 * total(d) - len(d), 2.0, EPSILON, r),
    "given_generator": lambda d, r: laplace_mechanism(
        total(d[r.choice(len(d), 3, replace=False)]), 1.0, EPSILON, r
    ),
    "first_randomness": lambda d, r: laplace_mechanism(
        total(d) * (1 + random.random()), 2.0, EPSILON, r
    ),
    "fixed_iterations": lambda d, r: sum(
        laplace_mechanism(total(d), 1.0, EPSILON / 3, r) for _ in range(3)
    ),
    "clipped_early": lambda d, r: total(d) + r.laplace(0.0, 1 / EPSILON),
    "raises_on_none": lambda d, r: raises_if(d, r, len(d) == 0),
    "charged_counter": lambda d, r: with_counter(d, r, EPSILON / 2, EPSILON / 4),
    "charges_the_sum": lambda d, r: [
        laplace_mechanism(total(d), 1.0, e, r) for e in (2 * EPSILON / 3, EPSILON / 3)
    ],
}
