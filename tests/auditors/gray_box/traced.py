"""Mechanisms with faults that a trace must find, each with a twin without it. Imported by name: primitives are patched where they stand."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np

EPSILON = 1.0


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
MECHANISM = {"law": "laplace", "input": "value", "scale": "sensitivity / epsilon", "sensitivity": "sensitivity", "epsilon": "epsilon"}
PRIMITIVES = {
    laplace_mechanism: MECHANISM,
    weak_mechanism: MECHANISM,
    two_inputs: {"law": "laplace", "input": "[first, second]", "scale": "2 / epsilon", "sensitivity": "2", "epsilon": "epsilon"},
    f"{__name__}.Ledger.charge": {"law": "spend", "epsilon": "epsilon"},
}


def many(run):
    """`size` independent runs of a function of (dataset, rng)."""

    def sample(dataset, size, rng):
        return [run(dataset, rng) for _ in range(size)]

    sample.__name__ = sample.__qualname__ = run.__name__
    return sample


def total(data):
    return float(np.clip(data, 0, 1).sum())


@many
def right(data, rng):
    return laplace_mechanism(total(data), 1.0, EPSILON, rng)


# replay makes fewer calls than were recorded
@many
def fewer_calls(data, rng):
    found = [laplace_mechanism(total(data), 1.0, EPSILON / 2, rng)]
    if data[0] > 0.5:
        found.append(laplace_mechanism(total(data), 1.0, EPSILON / 2, rng))
    return sum(found) / len(found)


@many
def as_many_calls(data, rng):
    return sum(laplace_mechanism(total(data), 1.0, EPSILON / 2, rng) for _ in range(2)) / 2


# NaN input on one side
@many
def nan_input(data, rng):
    return laplace_mechanism(float(np.mean(np.where(data > 0.9, np.nan, data))), 1.0 / len(data), EPSILON, rng)


@many
def nan_dropped(data, rng):
    return laplace_mechanism(float(np.nan_to_num(np.where(data > 0.9, np.nan, data)).mean()), 1.0 / len(data), EPSILON, rng)


# a 2,000-long parameter that differs in one place
@many
def long_parameter(data, rng):
    weights = np.ones(2000)
    weights[1500] = data[0]
    return laplace_mechanism(0.0, 1.0, EPSILON, rng, weights)


@many
def long_constant(data, rng):
    return laplace_mechanism(total(data), 1.0, EPSILON, rng, np.ones(2000))


# the second of two compared values in one call
@many
def second_of_two(data, rng):
    return two_inputs(1.0, 30 * float(data[0]), EPSILON, rng)


@many
def two_of_two(data, rng):
    return two_inputs(1.0, float(data[0]), EPSILON, rng)


# raw data added after the mechanism
@many
def raw_added(data, rng):
    return laplace_mechanism(total(data), 1.0, EPSILON, rng) + 100 * data[0]


@many
def constant_added(data, rng):
    return laplace_mechanism(total(data), 1.0, EPSILON, rng) + 100.0


# noise ten times too small with the right declared sensitivity
@many
def weak_noise(data, rng):
    return weak_mechanism(total(data), 1.0, EPSILON, rng)


# sensitivity declared for add/remove under replace-one: values in [-1, 1]
@many
def add_remove_sensitivity(data, rng):
    return laplace_mechanism(float((2 * np.clip(data, 0, 1) - 1).sum()), 1.0, EPSILON, rng)


@many
def replace_sensitivity(data, rng):
    return laplace_mechanism(float((2 * np.clip(data, 0, 1) - 1).sum()), 2.0, EPSILON, rng)


# a subsample drawn from an own default_rng
@many
def own_generator(data, rng):
    chosen = np.random.default_rng().choice(len(data), 3, replace=False)
    return laplace_mechanism(total(data[chosen]), 1.0, EPSILON, rng)


@many
def own_constant_generator(data, rng):
    chosen = np.random.default_rng(0).permutation(np.arange(40))[:3] % len(data)
    return laplace_mechanism(total(data[chosen]), 1.0, EPSILON, rng)


_cached = np.random.PCG64(7)


@many
def hidden_generator(data, rng):
    return laplace_mechanism(total(data), 1.0, EPSILON, rng) + 1e-3 * (_cached.random_raw() % 1000)


@many
def given_generator(data, rng):
    chosen = rng.choice(len(data), 3, replace=False)
    return laplace_mechanism(total(data[chosen]), 1.0, EPSILON, rng)


# randomness before the first primitive
@many
def first_randomness(data, rng):
    scale = 1.0 + random.random()
    return laplace_mechanism(total(data) * scale, 2.0, EPSILON, rng)


@many
def first_randomness_too_large(data, rng):
    scale = 1.0 + 5 * random.random()
    return laplace_mechanism(total(data) * scale, 1.0, EPSILON, rng)


# a data-dependent number of iterations
@many
def iterations(data, rng):
    return sum(rng.laplace(0.0, 1 / EPSILON) for _ in range(1 + int(5 * data[0])))


@many
def fixed_iterations(data, rng):
    return sum(laplace_mechanism(total(data), 1.0, EPSILON / 3, rng) for _ in range(3))


# clipping after aggregation
@many
def clipped_late(data, rng):
    return float(np.clip(10 * data.sum(), 0, 50)) + rng.laplace(0.0, 1 / EPSILON)


@many
def clipped_early(data, rng):
    return float(np.clip(data, 0, 1).sum()) + rng.laplace(0.0, 1 / EPSILON)


# a bound inferred from the data
@many
def inferred_bound(data, rng):
    bound = float(np.max(data))
    return laplace_mechanism(float(np.clip(data, 0, bound).sum()), bound, EPSILON, rng)


@many
def given_bound(data, rng):
    return laplace_mechanism(float(np.clip(data, 0, 1.0).sum()), 1.0, EPSILON, rng)


# a scale computed from the data
@many
def data_scale(data, rng):
    return total(data) + rng.laplace(0.0, 1.0 + float(np.std(data)))


@many
def given_scale(data, rng):
    return total(data) + rng.laplace(0.0, 1.0)


# a primitive called in a thread
@many
def in_threads(data, rng):
    found = {}

    def work(k):
        found[k] = laplace_mechanism(3 * total(data) if k else 0.0, 1.0, EPSILON / 2, rng)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found[0] + found[1]


@many
def in_a_pool(data, rng):
    lock = threading.Lock()

    def work(k):
        with lock:
            return laplace_mechanism(total(data), 1.0, EPSILON / 4, rng)

    with ThreadPoolExecutor(3) as pool:
        return sum(pool.map(work, range(4)))


# an exception on one side
@many
def raises_on_one(data, rng):
    if data[0] > 0.9:
        raise ValueError("too large")
    return laplace_mechanism(total(data), 1.0, EPSILON, rng)


@many
def raises_on_none(data, rng):
    if len(data) == 0:
        raise ValueError("empty")
    return laplace_mechanism(total(data), 1.0, EPSILON, rng)


# a counter that the accountant missed
@many
def missed_counter(data, rng):
    LEDGER.charge(EPSILON / 2)
    found = laplace_mechanism(total(data), 1.0, EPSILON / 2, rng)
    return found, laplace_mechanism(float((data > 0.5).sum()), 1.0, EPSILON / 4, rng)


@many
def charged_counter(data, rng):
    LEDGER.charge(EPSILON / 2)
    LEDGER.charge(EPSILON / 4)
    found = laplace_mechanism(total(data), 1.0, EPSILON / 2, rng)
    return found, laplace_mechanism(float((data > 0.5).sum()), 1.0, EPSILON / 4, rng)


# a composition that charges max instead of sum
@many
def charges_the_largest(data, rng):
    return [laplace_mechanism(total(data), 1.0, e, rng) for e in (EPSILON, EPSILON / 2)]


@many
def charges_the_sum(data, rng):
    return [laplace_mechanism(total(data), 1.0, e, rng) for e in (2 * EPSILON / 3, EPSILON / 3)]


FAULTS = [  # broken, right twin, kinds of which one must be found
    (fewer_calls, as_many_calls, {"CALLS"}),
    (nan_input, nan_dropped, {"SENSITIVITY"}),
    (long_parameter, long_constant, {"PARAMETER"}),
    (second_of_two, two_of_two, {"SENSITIVITY"}),
    (raw_added, constant_added, {"OUTPUT"}),
    (weak_noise, right, {"NOISE"}),
    (add_remove_sensitivity, replace_sensitivity, {"SENSITIVITY"}),
    (own_generator, given_generator, {"SOURCE"}),
    (own_constant_generator, given_generator, {"SOURCE"}),
    (hidden_generator, right, {"SOURCE"}),
    (first_randomness_too_large, first_randomness, {"SENSITIVITY"}),
    (iterations, fixed_iterations, {"CALLS"}),
    (clipped_late, clipped_early, {"LOSS"}),
    (inferred_bound, given_bound, {"PARAMETER", "SCALE"}),
    (data_scale, given_scale, {"SCALE"}),
    (in_threads, in_a_pool, {"SENSITIVITY"}),
    (raises_on_one, raises_on_none, {"EXCEPTION"}),
    (missed_counter, charged_counter, {"ACCOUNT"}),
    (charges_the_largest, charges_the_sum, {"LOSS"}),
]
