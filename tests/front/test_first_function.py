# ruff: noqa: NPY002 - users draw from the global generator
"""Tests of a user's first function, class or estimator: it is recognized, or refused
with advice.
"""

import functools
import random
from dataclasses import dataclass

import numpy as np
import pytest

from dpwitness import InvalidArgument, one_run, parse_claim
from dpwitness.mechanisms.wrappers.recognition import formed, recognize

DATA = np.array([[0.0, 1.0], [1.0, 0.0]])


def plain(data, eps):
    return float(np.sum(data) + np.random.laplace(scale=1 / eps))


def keyword_only(data, *, epsilon):
    return float(np.sum(data) + random.expovariate(epsilon) - random.expovariate(epsilon))


def seeded(data, epsilon=1.0, random_state=0):
    return {
        "sum": float(np.sum(data) + np.random.RandomState(random_state).laplace(scale=1 / epsilon))
    }


def old_generator(data, rs):
    return np.float64(np.sum(data) + rs.laplace()), 0


def standard_generator(data, rng: random.Random):
    return rng.gauss(float(np.sum(data)), 1.0)


def module_generator(data, rng=random):
    return float(np.sum(data) + rng.expovariate(1.0))


def frame(data: "pandas.DataFrame"):  # noqa: F821
    return float(data.sum().sum() + np.random.laplace())


def values(data, prng):
    yield from (float(np.sum(data)) + prng.laplace(size=2)).tolist()


async def waited(data):
    return float(np.sum(data) + np.random.laplace())


def batch(x, k, g):
    return np.sum(x) + g.laplace(size=k)


def without_generator(data, n_samples):
    return np.sum(data) + np.random.laplace(size=n_samples)


def bins(data, n=2):
    return [float(np.sum(data))] * n


def vector(data, width, scale):
    return [float(np.sum(data)) / scale] * 5


def labeled(X, y, epsilon=1.0):
    return float(np.sum(y) + np.random.laplace(scale=1 / epsilon))


@dataclass
class Callable_:
    epsilon: float = 1.0

    def __call__(self, data, generator):
        return float(np.sum(data) + generator.laplace(scale=1 / self.epsilon))


class Method:
    def __init__(self, epsilon):
        self.epsilon = epsilon

    def release(self, data, random_state=None):
        return float(
            np.sum(data) + np.random.RandomState(random_state).laplace(scale=1 / self.epsilon)
        )


class Two:
    def mean(self, data):
        return 0.0

    def total(self, data):
        return 1.0


class Randomizer:
    def __init__(self, epsilon=1.0):
        self.epsilon = epsilon

    def probability(self, bit):
        return 0.5

    def randomize(self, bit):
        return len(bit)


class Holder:
    def __init__(self, data, epsilon=1.0):
        self.data = data

    def run(self):
        return 0.0


class Loose:
    @staticmethod
    def noisy(data):
        return 0.0


class Regressor:
    def __init__(self, epsilon=1.0, random_state=None):
        self.random_state = random_state

    def fit(self, X, y):
        self.coef_ = np.random.RandomState(self.random_state).laplace(size=X.shape[1]) + np.sum(y)
        self.intercept_ = 0.0
        return self


class Transformer:
    def fit(self, X):
        self.mean_ = np.mean(X) + np.random.laplace()
        return self

    def transform(self, X):
        return X - self.mean_


@pytest.mark.parametrize(
    ("found", "kwargs", "form"),
    [
        (plain, {"eps": 1}, "run"),
        (keyword_only, {"epsilon": 1}, "run"),
        (functools.partial(plain, eps=1), {}, "run"),
        (seeded, {}, "run"),
        (old_generator, {}, "run"),
        (standard_generator, {}, "run"),
        (frame, {}, "run"),
        (values, {}, "run"),
        (waited, {}, "run"),
        (lambda data: float(np.sum(data)), {}, "run"),
        (labeled, {}, "run"),
        (Callable_(1.0), {}, "run"),
        (Callable_, {"epsilon": 1}, "object"),
        (Method, {"epsilon": 1}, "object.release"),
        (Regressor, {"epsilon": 1}, "estimator.coef_,intercept_"),
        (Transformer, {}, "estimator.mean_"),
        (module_generator, {}, "run"),
        (Randomizer, {}, "object.randomize"),
        (without_generator, {}, "batch"),
        (batch, {}, ""),
    ],
)
def test_a_first_function_is_recognized_and_runs(found, kwargs, form):
    if found is frame:
        pytest.importorskip("pandas")
    name = getattr(found, "__name__", "it")
    assert recognize(found, name, kwargs, DATA)[0] == form
    mechanism = formed(found, kwargs, form) if form else found
    assert len(mechanism(DATA, 3, np.random.default_rng(1))) == 3


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (lambda rng, data: 0.0, "the dataset must be the first parameter"),
        (
            Holder,
            "Holder takes its dataset when it is created: audit a function, def f(data): "
            "return Holder(data, ...).METHOD()",
        ),
        (Loose, "or audit Loose.noisy"),
        (plain, """plain needs eps: give --kwargs '{"eps": ...}'"""),
        (keyword_only, "needs epsilon"),
        (vector, "vector needs width, scale"),
        (bins, "give --as batch, or --as run"),
        (Method, "Method needs epsilon"),
        (lambda: 0.0, "takes no dataset"),
    ],
)
def test_what_is_ambiguous_is_refused_with_the_remedy(found, text):
    with pytest.raises(InvalidArgument) as raised:
        recognize(found, getattr(found, "__name__", ""), {}, DATA)
    assert text in str(raised.value)


def test_a_class_with_two_releases_names_them():
    with pytest.raises(InvalidArgument, match=r"it has mean, total: name it as in Two\.METHOD"):
        recognize(Two, "Two", {}, DATA)


def test_a_generator_is_never_bound_to_another_parameter():
    with pytest.raises(InvalidArgument, match="needs eps"):
        one_run(plain)
    assert len(one_run(plain, eps=1.0)(DATA, 2, np.random.default_rng(1))) == 2


@pytest.mark.parametrize(
    ("text", "claim"),
    [
        ("1", "pure:1"),
        ("eps=1", "pure:1"),
        ("epsilon=1", "pure:1"),
        ("1,1e-5", "approx:1,1e-05"),
        ("eps=1,delta=1e-5", "approx:1,1e-05"),
    ],
)
def test_claims_in_short(text, claim):
    assert str(parse_claim(text)) == claim


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("pure1", "pure:1"),
        ("pure=1", "pure:1"),
        ("approx:1", "approx:1,1e-5"),
        ("rho:1", "zcdp:1"),
        ("prue:1", "pure:1"),
    ],
)
def test_near_misses_of_claims_are_answered(text, hint):
    with pytest.raises(InvalidArgument) as raised:
        parse_claim(text)
    assert f"did you mean {hint}" in str(raised.value)
