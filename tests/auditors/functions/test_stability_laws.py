"""Audits of randomized transformations: laws that no coupling keeps within the map are found,
others are not accused.
"""

import json
import random

import numpy as np
import pytest

from dpwitness import InvalidArgument, Verdict, audit_stability, replay
from dpwitness.auditors.witnesses.kinds import recompute_bounds
from dpwitness.stability import Atom, VectorOf

INTS = VectorOf(Atom("i32", bounds=(0, 9)))


def audit(function, stability_map, output_metric, seconds=60):
    return audit_stability(
        function,
        stability_map,
        INTS,
        "insert-delete",
        output_metric,
        inputs=[[1, 2, 3]],
        seconds=seconds,
        seed=1,
    )


def shuffled_if_small(seed):
    """Three rows: the first three of many, or all of few in random order."""
    rng = random.Random(seed)

    def apply(rows):
        full = [*rows, 0, 0, 0][: max(3, len(rows))]
        return full[:3] if len(full) > 3 else rng.sample(full, 3)

    return apply


def test_a_shuffle_of_some_inputs_only_is_violated_and_its_witness_replays():
    """A right audit misses with probability below 1e-9: a sixth of the outputs or more are too far,
    of 100 training runs.
    """
    found = audit(shuffled_if_small(1), lambda d: 2 * d, "insert-delete")
    assert (
        found.verdict is Verdict.VIOLATED
        and found.finding == "law"
        and found.evidence == "statistical"
    )
    assert found.law.refuted and found.law.near == 0 and found.measured > found.bound
    assert (
        found.headline().endswith("confidence 0.99)")
        and "0 of the second are new" in found.headline()
    )
    result = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert recompute_bounds(result).determined
    with pytest.raises(InvalidArgument):
        recompute_bounds(result | {"law": result["law"] | {"far": 3}})
    witness = json.loads(json.dumps(found.witness, allow_nan=False))
    assert replay(witness, mechanism=shuffled_if_small(2)).verdict is Verdict.VIOLATED
    assert replay(witness, mechanism=lambda rows: sorted(rows)[:3]).verdict is Verdict.NOT_REFUTED


@pytest.mark.slow_cases("<lambda>-insert-delete")
@pytest.mark.parametrize(
    ("noisy", "output_metric"),
    [
        (lambda rows, rng: len(rows) + int(rng.integers(3)), "absolute"),
        (lambda rows, rng: sum(rows) / 9 + rng.normal(), "absolute"),
        # no output occurs twice
        (lambda rows, rng: [float(x) + rng.random() for x in rows], "insert-delete"),
    ],
)
def test_a_coupling_within_the_map_is_not_accused(noisy, output_metric):
    """False-failure probability below 1e-6 in all: each test has error 0.01, and no pair here comes
    near it.
    """
    rng = np.random.default_rng(5)
    found = audit(lambda rows: noisy(rows, rng), lambda d: d, output_metric, seconds=0.3)
    assert found.verdict is Verdict.NOT_REFUTED and found.randomized and found.pairs
