"""Functions of one run, classes with state, estimators and sessions as mechanisms: what they give,
and what they refuse.

Statistical tests fail falsely with probability 1e-9: each is one audit at that error, with a fixed
seed.
"""

import asyncio
import pickle
import random
import secrets
import sys
import types
import uuid
import warnings

import numpy as np
import pytest

import dpwitness as dpw
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.auditors.workers.loading import describe_target
from dpwitness.auditors.workers.rounds import is_builtin_mechanism
from dpwitness.core.protocols.mechanism import MechanismFailed
from dpwitness.mechanisms.wrappers.sessions import answer_kind
from dpwitness.mechanisms.wrappers.single_runs import PerRun

PAIR = dpw.Pair(np.zeros(4), np.array([1.0, 0, 0, 0]), relation="replace-one")
RNG = np.random.default_rng


def audited(mechanism, trials=4000, **options):
    options = {"claim": "pure:1", "pair": PAIR, "seed": 1, "confidence": 1 - 1e-9} | options
    return dpw.audit(mechanism, trials=trials, **options)


class Mean:
    """scikit-learn's conventions, with `scale` times the noise that epsilon = 1 needs."""

    scale = 1.0

    def __init__(self, random_state=None):
        self.random_state = random_state

    def fit(self, X, y=None):
        noise = np.random.RandomState(self.random_state).laplace(scale=self.scale / len(X))
        self.mean_ = X.mean() + noise
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)


class Half(Mean):
    scale = 0.4


class Counter:
    """State: the second release of one object has no noise."""

    def __init__(self, rng):
        self.rng, self.calls = rng, 0

    def release(self, dataset):
        self.calls += 1
        return float(np.sum(dataset) + (self.rng.laplace() if self.calls == 1 else 0.0))


async def slow(dataset, rng):
    await asyncio.sleep(0)
    return float(np.sum(dataset) + rng.laplace())


async def endless(dataset):
    while True:
        yield 0.0


async def hanging(dataset, rng):
    await asyncio.Event().wait()


right = dpw.wrap.from_estimator(Mean, "mean_", claim="pure:1")
wrong = dpw.wrap.from_estimator(Half, "mean_", claim="pure:1")
counter = dpw.wrap.fresh(Counter, "release", claim="pure:1")
waited = dpw.one_run(slow, claim="pure:1")


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    """This module under its name, as a target's is: pytest's import mode leaves it out."""
    monkeypatch.setitem(
        sys.modules, __name__, sys.modules.get(__name__) or types.SimpleNamespace(**globals())
    )


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [right, counter, waited])
def test_right_ones_are_not_refuted(mechanism):
    result = audited(mechanism)
    assert result.verdict is Verdict.NOT_REFUTED and result.epsilon_lower > 0.4
    assert any("single calls" in note for note in result.notes)


@pytest.mark.filterwarnings("ignore:coroutine")
@pytest.mark.parametrize(
    "function", [slow, lambda dataset, size, rng: float(rng.laplace()), hanging]
)
def test_a_function_of_one_run_is_told_what_makes_a_mechanism_of_it(function):
    result = audited(function)
    assert result.verdict is Verdict.ERROR and "dpwitness.one_run makes a mechanism" in str(result)


def test_a_wrong_estimator_is_found():
    result = audited(wrong)
    assert result.verdict is Verdict.VIOLATED and 1.3 < result.epsilon_lower < 2.5
    assert any("random_state, with a new value for each run" in note for note in result.notes)


def test_each_run_has_an_object_and_randomness_of_its_own():
    drawn = right(np.zeros(4), 500, RNG(1))
    assert len(set(drawn)) == 500
    assert drawn == right(np.zeros(4), 500, RNG(1))
    state = RNG(3)
    assert counter(np.zeros(4), 3, state) == [float(value) for value in RNG(3).laplace(size=3)]


def test_found_again_by_name():
    module = sys.modules[right.__module__]
    assert right.__qualname__ == "right" and module.right is right
    assert describe_target(right)["target"].endswith(":right")
    local = dpw.wrap.from_estimator(Mean, "mean_", label=None, claim="pure:1")
    assert (
        not hasattr(local, "__qualname__")
        and describe_target(local) is None
        and local.__name__ == "Mean"
    )
    again = pickle.loads(pickle.dumps(local))
    assert (
        again(np.zeros(4), 2, RNG(1)) == local(np.zeros(4), 2, RNG(1)) and again.claim == "pure:1"
    )


def test_outputs_and_data_of_estimators():
    rows = np.array([[0.0, 7.0], [1.0, 9.0]])
    seen = []

    class Sees(Mean):
        def fit(self, X, y=None):
            seen.append((X.tolist(), None if y is None else y.tolist()))
            return Mean.fit(self, X)

    assert dpw.wrap.from_estimator(Sees, "predict", at=[[0.0], [1.0]], label=-1)(
        rows, 3, RNG(1)
    ).shape == (3, 2)
    dpw.wrap.from_estimator(Sees, lambda it: it.mean_)((rows, np.array([1, 2])), 1, RNG(1))
    dpw.wrap.from_estimator(Sees, "mean_")(
        {"x": rows, "y": np.array([1, 2]), "multiplicity": [1, 2]}, 1, RNG(1)
    )
    assert (
        seen[0] == ([[0.0], [1.0]], [7.0, 9.0])
        and seen[-2][1] == [1, 2]
        and seen[-1][1] == [1, 2, 2]
    )


class Other(Mean):
    def fit(self, X, y=None):
        return Mean()


ONE = Counter(RNG(1))


@pytest.mark.parametrize(
    ("mechanism", "text"),
    [
        (
            dpw.wrap.fresh(lambda: ONE, "release"),
            "must return a new object each time, <lambda> returned the same object twice",
        ),
        (dpw.wrap.fresh(lambda: None), "returned None"),
        (dpw.wrap.fresh(Counter, "relase"), "method must be one of Counter, got 'relase'"),
        (dpw.wrap.fresh(Counter), "an object of Counter cannot be called"),
        (dpw.wrap.from_estimator(Mean, "meen_"), "Mean has no 'meen_'; it has learned mean_"),
        (
            dpw.wrap.from_estimator(Mean, "predict"),
            "'predict' of Mean is a method: give the public points to call it on",
        ),
        (dpw.wrap.from_estimator(Other, "mean_"), "fit must return the estimator itself"),
        (dpw.wrap.from_estimator(dict, "mean_"), "must make an object with fit"),
        (dpw.wrap.from_estimator(Mean, "mean_", label=4), "label must be a column"),
        (dpw.one_run(endless), "endless yields more than 10,000 values in one run"),
        (
            dpw.one_run(hanging, time_limit=0.05),
            "a coroutine of hanging took longer than time_limit = 0.05 s",
        ),
        (dpw.wrap.interactive(Counter, [1]), "a session must have start"),
    ],
    ids=range(12),
)
def test_bad_objects_end_in_error_and_are_named(mechanism, text):
    result = audited(mechanism, 1000)
    assert result.verdict is Verdict.ERROR and text in result.headline()


def test_objects_that_go_round_are_found():
    pool = [Counter(RNG(i)) for i in range(3)]
    turn = iter(range(100))
    mechanism = dpw.wrap.fresh(lambda: pool[next(turn) % 3], "release")
    with pytest.raises(MechanismFailed, match="same object twice"):
        mechanism(np.zeros(4), 4, RNG(1))


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: dpw.one_run(3), "function must be callable, got 3"),
        (lambda: dpw.wrap.fresh("x"), "factory must be callable"),
        (lambda: dpw.one_run(slow, time_limit=0), "time_limit must be positive"),
        (
            lambda: dpw.one_run(slow, clam="pure:1"),
            "'clam' is not an option; a mechanism may declare claim, domain",
        ),
        (lambda: dpw.wrap.from_estimator(Mean, 3), "output must be callable"),
        (lambda: dpw.wrap.interactive(Counter), "an adversary must be given, or queries"),
        (lambda: dpw.wrap.interactive(Counter, queries=[]), "queries must be a non-empty list"),
        (
            lambda: dpw.wrap.interactive(Counter, queries={"low": [1], "high": [0]}),
            "queries must be",
        ),
        (
            lambda: dpw.wrap.interactive(Counter, {"stages": []}),
            "adversary must have the keys stages, rounds",
        ),
        (lambda: dpw.wrap.Adversary([[1]], rounds=0), "rounds must be a whole number"),
        (lambda: dpw.wrap.Adversary([], rounds=1), "stages must be a non-empty list"),
    ],
)
def test_bad_arguments_are_refused(make, text):
    with pytest.raises(dpw.InvalidArgument, match=text):
        make()


def test_a_certificate_of_a_density_is_refused_for_lack_of_one():
    with pytest.raises(dpw.InvalidArgument, match="must have a method"):
        dpw.certify(right, PAIR, "pure:1")


def test_what_an_estimator_warns_of_is_told_once():
    class Warns(Mean):
        def fit(self, X, y=None):
            warnings.warn("bounds were not given", UserWarning, stacklevel=2)
            return Mean.fit(self, X)

    result = audited(dpw.wrap.from_estimator(Warns, "mean_"), 2000)
    assert [note for note in result.notes if "warns" in note] == [
        "the mechanism warns: UserWarning: bounds were not given"
    ]


def test_system_entropy_is_seeded():
    def drawn(dataset):
        return float(
            np.sum(dataset)
            + secrets.randbelow(4)
            + np.random.default_rng().random()
            + uuid.uuid4().int % 2
        )

    first, second = (audited(dpw.one_run(drawn), 1000) for _ in range(2))
    assert first.verdict is not Verdict.ERROR
    assert first.tally == second.tally and first.tally.correct > 0


def test_noise_from_elsewhere_is_found_and_can_be_declared():
    def drawn(dataset):
        return float(np.sum(dataset) + random.Random().randrange(1000))

    assert audited(dpw.one_run(drawn), 1000).verdict is Verdict.ERROR
    result = audited(dpw.one_run(drawn, seeded=False), 1000)
    assert result.verdict is not Verdict.ERROR
    assert any(
        "takes no seed; numpy.random, random, secrets and torch were seeded globally" in note
        for note in result.notes
    )


def test_a_trace_sees_the_noise_of_an_estimator():
    found = dpw.trace(wrong, PAIR, "pure:1", confirm=False)
    assert "LOSS" in {finding.kind for finding in found.findings}


def test_a_module_of_pytorch():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")

    class Noisy(torch.nn.Module):
        def forward(self, x):
            return x.sum() + torch.distributions.Laplace(0.0, 1.0).sample((1,))

    assert audited(dpw.one_run(Noisy())).verdict is Verdict.NOT_REFUTED


def test_kinds_of_mechanism_stay_outside_of_this_project():
    """They are run with all the checks that other people's code gets."""
    assert isinstance(right, PerRun) and not is_builtin_mechanism(right)
    assert (
        answer_kind(np.float64(2)) == "number"
        and answer_kind(np.int64(3)) == "3"
        and answer_kind(np.bool_(True)) == "True"
    )
