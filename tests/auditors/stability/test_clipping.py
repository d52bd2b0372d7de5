"""Clipping of per-sample gradients as a transformation: a wrong norm is found without noise, as in
docs/examples/opacus_training.py.
"""

import numpy as np

from dpwitness import Verdict, audit_stability
from dpwitness.stability import Atom, FrameOf

STEPS = 4
SPACE = FrameOf(
    {f"{part}{step}": Atom("f64", bounds=(-1, 1)) for step in range(STEPS) for part in "xy"}
)


def clipped_sum(frame, bias_norm):
    """Sum of the clipped gradients of a linear layer at 0 on sequences: half of the squared error,
    summed over the steps.
    """
    records = np.array(list(frame.values()), dtype=float).T.reshape(-1, STEPS, 2)
    total = np.zeros(2)
    for x, y in zip(records[..., 0], records[..., 1], strict=True):
        gradient = np.array([-x @ y, -y.sum()])
        total += gradient / max(1.0, np.hypot(gradient[0], bias_norm(y)))
    return total.tolist()


def search(bias_norm, seconds):
    return audit_stability(
        lambda frame: clipped_sum(frame, bias_norm),
        lambda d: d * (1 + 1e-6),
        SPACE,
        "symmetric",
        "l2",
        d_in=(1,),
        seconds=seconds,
        seed=1,
    )


def test_a_norm_of_the_bias_that_ignores_the_sum_over_a_sequence_is_found():
    found = search(np.linalg.norm, 60.0)  # ends with the first refutation
    assert found.verdict is Verdict.VIOLATED and found.ratio > 1.1


def test_the_norm_of_the_sum_is_not_accused():
    assert search(lambda y: abs(y.sum()), 0.3).verdict is not Verdict.VIOLATED
