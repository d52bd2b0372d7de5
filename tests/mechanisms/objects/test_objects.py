"""Functions of one run, classes with state, estimators and sessions as mechanisms: what they give,
and what they refuse.

Statistical tests fail falsely with probability 1e-9: each is one audit at that error, with a fixed
seed.
"""

import asyncio
import pickle
import secrets
import sys
import types
import uuid

import numpy as np
import pytest

import dpwitness as dpw
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.auditors.workers.descriptions import describe_target
from dpwitness.auditors.workers.rounds import is_builtin_mechanism
from dpwitness.mechanisms.wrappers.sessions import answer_kind
from dpwitness.mechanisms.wrappers.single_runs import PerRun

PAIR = dpw.Pair(np.zeros(4), np.array([1.0, 0, 0, 0]), relation="replace-one")
RNG = np.random.default_rng


def audited(mechanism, trials=4000, **options):
    options = {"claim": "pure:1", "pair": PAIR, "seed": 1, "confidence": 1 - 1e-9} | options
    options |= {"bits": False, "trace": False, "causes": False}
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


def test_a_certificate_of_a_density_is_refused_for_lack_of_one():
    with pytest.raises(dpw.InvalidArgument, match="must have a method"):
        dpw.certify(right, PAIR, "pure:1")


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
