"""The whole pipeline: reproducible, interruptible, and clear about mechanisms that cannot be
audited.
"""

import json
import os
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.stats import norm

from dpwitness import InvalidArgument, Pair, Verdict, audit, audit_outputs, certify
from dpwitness.mechanisms import Records

PAIR = Pair(np.array([0.0]), np.array([1.0]))


def run(mechanism, **options):
    return audit(
        mechanism, **({"claim": "pure:1", "pair": PAIR, "trials": 20_000, "seed": 1} | options)
    )


def test_interrupt_keeps_what_was_measured():
    def stop(done, planned):
        if done > 120_000:
            raise KeyboardInterrupt

    result = run(
        lambda d, n, rng: d[0] + rng.laplace(0, 0.5, n), trials=400_000, progress=stop, bits=False
    )
    assert result.verdict is Verdict.INCONCLUSIVE
    assert 100_000 < result.trials < 400_000
    assert result.parameter_lower > 1.2
    assert "interrupted after" in result.notes[0]
    assert result.tally.rounds > 50_000
    early = run(
        lambda d, n, rng: d[0] + rng.laplace(0, 0.5, n), progress=lambda a, b: stop(10**9, 0)
    )
    assert early.verdict is Verdict.INCONCLUSIVE and early.parameter_lower == 0


class Alternating:
    def __init__(self):
        self.calls = 0

    def sample(self, dataset, size, rng):
        self.calls += 1
        return rng.laplace(0, 1, (size, 1 + self.calls % 2))


def ignores_rng(dataset, size, rng):
    return dataset[0] + np.random.default_rng(1).laplace(0, 1, size)


def changes_dataset(dataset, size, rng):
    dataset[0] += 1
    return rng.laplace(0, 1, size)


@pytest.mark.parametrize(
    ("mechanism", "message"),
    [
        (lambda d, n, rng: int("none"), "always raises ValueError: invalid literal for int()"),
        (lambda d, n, rng: rng.laplace(0, 1, n + 1), "the first axis must count the runs"),
        (
            Alternating(),
            r"changed its output between calls on D1: float64\[1\] and then float64\[2\]",
        ),
        (ignores_rng, "ignores rng"),
        (lambda d, n, rng: np.full(n, d[0] + rng.laplace()), "draw fresh noise for each run"),
        (lambda d, n, rng: d[0] + np.cumsum(rng.laplace(0, 1, n)), "keeps state between rounds"),
        (changes_dataset, "changes its dataset in place"),
    ],
)
def test_unfit_mechanisms_end_in_error(mechanism, message):
    result = run(mechanism, pair=Pair(np.array([0.0]), np.array([1.0])))
    assert result.verdict is Verdict.ERROR
    assert message.replace("\\", "") in result.notes[0]
    json.dumps(result.to_json(), allow_nan=False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"trials": 10},
            "audit: trials must be a whole number, between 1000 and 1000000000000, got 10",
        ),
        ({"confidence": 1.0}, r"audit: confidence must lie in \(0, 1\), got 1.0"),
        ({"confidence": float("nan")}, "confidence must lie in"),
        ({"seed": -1}, "seed must be a whole number, at least 0, got -1"),
        ({"claim": 3}, "claim must be a privacy notion"),
        ({"claim": "pure"}, "claim must have the form pure:EPSILON"),
        ({"pair": []}, "pair must be a Pair or a non-empty list"),
        ({"pair": None}, "pair must be given, or a domain"),
        ({"stop": "now"}, "stop must be one of"),
        ({"time_limit": 0}, "time_limit must be positive and finite, got 0"),
    ],
)
def test_bad_arguments_are_refused_in_one_line(options, message):
    with pytest.raises(InvalidArgument, match=message):
        run(ignores_rng, **options)


@dataclass
class Housed:
    """A mechanism with a density and a domain."""

    domain: object

    def sample(self, dataset, size, rng):
        return rng.normal(size=size)

    def log_density(self, outputs, dataset):
        return norm.logpdf(outputs[:, 0])


@pytest.mark.parametrize("domain", ["Records", 3, {"kind": "Records"}, Records])
def test_what_is_no_domain_is_refused(domain):
    with pytest.raises(InvalidArgument, match="audit: domain must be one of Answers, Costs"):
        run(ignores_rng, pair=None, domain=domain)
    with pytest.raises(InvalidArgument, match="certify: domain must be one of Answers, Costs"):
        certify(Housed(domain), claim="pure:1")


def test_given_outputs_that_cannot_be_audited():
    walk = np.cumsum(np.random.default_rng(0).normal(size=5000))
    assert "keeps state between rounds" in audit_outputs(walk, walk + 1, "pure:1").notes[0]
    with pytest.raises(InvalidArgument, match="outputs1 must hold at least 1000 outputs, got 10"):
        audit_outputs(np.zeros(1000), np.zeros(10), "pure:1")
    with pytest.raises(
        InvalidArgument, match="outputs0 must be an array or a list with one output per run"
    ):
        audit_outputs(3.0, np.zeros(1000), "pure:1")


def batches(scale, size=100_000, seed=0):
    rng = np.random.default_rng(seed)
    return rng.laplace(0.0, scale, size), rng.laplace(1.0, scale, size)


@pytest.mark.slow
def test_given_outputs_are_certified_on_the_half_that_chose_nothing():
    """1e5 runs a side at scale 0.8, epsilon = 1.25: found but never exceeded, with probability 1 -
    1e-6.
    """
    result = audit_outputs(*batches(0.8), "pure:1", confidence=1 - 1e-6)
    assert result.verdict is Verdict.VIOLATED and 1.15 < result.epsilon_lower < 1.25
    assert result.tally.rounds < 100_000 and result.witness is None
    assert (
        audit_outputs(*batches(1.0), "pure:1", confidence=1 - 1e-6).verdict is Verdict.NOT_REFUTED
    )


def hangs(dataset, size, rng):
    if size > 40:
        time.sleep(30)
    return dataset[0] + rng.laplace(0, 1, size)


def dies(dataset, size, rng):
    os._exit(3)


def test_hung_and_dying_mechanisms_end_in_error():
    assert "longer than time_limit = 1 s" in run(hangs, time_limit=1.0).notes[0]
    with ProcessPoolExecutor(1) as pool:
        result = run(dies, executor=pool)
    assert result.verdict is Verdict.ERROR and "worker process died" in result.notes[0]


def test_an_argument_that_audit_does_not_have_is_refused():
    with pytest.raises(TypeError, match="unexpected keyword argument 'trails'"):
        run(lambda d, n, rng: d[0] + rng.laplace(0, 1, n), trails=5)
