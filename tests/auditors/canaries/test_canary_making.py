"""Canaries for a training, scores, and audits of DP-SGD's steps. Statistical tests fail falsely
with probability at most 1e-6.
"""

import functools

import numpy as np
import pytest

import dpwitness as dpw
from dpwitness.mechanisms import GradientSteps
from dpwitness.mechanisms.textbook.gradient_steps import (
    step_delta,
    step_epsilon,
    subsampled_gaussian_pld,
)

CLIP, NOISE, RATE = 1.0, 1.0, 0.3


def clipped(rows, bound=CLIP):
    return rows * np.minimum(
        1.0, bound / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    )


def update(gradients, rng, *, clip=clipped, noise=NOISE, rate=RATE):
    """One step of DP-SGD as somebody would write it."""
    batch = gradients[rng.random(len(gradients)) < rate]
    return clip(batch).sum(axis=0) + noise * rng.normal(size=gradients.shape[1])


def together(rows):
    """The batch's sum clipped as one."""
    return clipped(rows.sum(axis=0, keepdims=True))


BROKEN = {
    "not clipped": {"clip": lambda rows: rows},
    "clipped to twice": {"clip": lambda rows: clipped(rows, 2.0)},
    "half the noise": {"noise": NOISE / 2},
    "twice the rate": {"rate": 2 * RATE},
    "clipped by the batch": {"clip": together},
}


def step(delta=1e-3, **fault):
    return GradientSteps(
        noise_multiplier=NOISE,
        sampling_probability=RATE,
        delta=delta,
        update=functools.partial(update, **fault),
    )


@pytest.mark.parametrize(("noise", "rate"), [(1.0, 1.0), (1.0, 0.1), (0.6, 0.4), (3.0, 0.01)])
def test_the_step_is_dp_accountings_in_both_orders(noise, rate):
    epsilons = np.array([0.0, 0.03, 0.3, 1.0, 2.0])
    expected = subsampled_gaussian_pld(noise, rate, 1).get_delta_for_epsilon(epsilons)
    assert [step_delta(noise, rate, e) for e in epsilons] == pytest.approx(
        expected.tolist(), rel=1e-6, abs=1e-12
    )
    assert (
        step_delta(noise, rate, step_epsilon(noise, rate, 1e-4)) == pytest.approx(1e-4, rel=1e-6)
        or step_epsilon(noise, rate, 1e-4) == 0
    )


@pytest.mark.slow
def test_the_white_box_sees_every_fault():
    """The density is held against the sampler at a false-alarm rate below 1e-6."""
    right = step()
    for pair in (right.worst_pair(), right.crowded_pair()):
        assert (
            dpw.certify(right, pair, trials=10_000, density_runs=0).verdict is not dpw.Verdict.ERROR
        )
    for name, fault in BROKEN.items():
        broken = step(**fault)
        pair = broken.crowded_pair() if name == "clipped by the batch" else broken.worst_pair()
        assert dpw.certify(broken, pair, trials=10_000).verdict is dpw.Verdict.ERROR, name


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault", ["not clipped", "clipped to twice", "half the noise", "twice the rate"]
)
def test_the_black_box_refutes_what_breaks_the_promise(fault):
    found = dpw.audit(
        step(delta=1e-2, **BROKEN[fault]),
        pair=step().worst_pair(),
        trials=20_000,
        bits=False,
        confidence=0.999,
    )
    assert found.verdict is dpw.Verdict.VIOLATED


def test_the_black_box_lets_the_right_step_pass():
    """False alarm: 1 - confidence."""
    right = step(delta=1e-2)
    found = dpw.audit(
        right, pair=right.worst_pair(), trials=20_000, bits=False, confidence=1 - 1e-6
    )
    assert found.verdict is dpw.Verdict.NOT_REFUTED and found.epsilon_lower > 0.1


def test_canaries_of_a_private_sum_are_what_the_limit_says():
    """A sum of clipped Dirac gradients at epsilon 4: within the limit of what canaries can certify,
    and not half of it.
    """
    rng, canaries = np.random.default_rng(5), dpw.canaries.GradientCanaries(2000, 2000, 3.0)
    included = rng.random(2000) < 0.5
    total = (
        clipped(canaries.rows(included)).sum(axis=0) + rng.normal(size=2000) / dpw.GDP(0.9249).mu
    )
    scores = canaries.scores(total)
    found = dpw.audit_canaries(scores[included], scores[~included], "gdp:0.9249")
    limit = dpw.canaries.canary_limit("gdp:0.9249", 2000).epsilon
    assert (
        found.verdict is dpw.Verdict.NOT_REFUTED and 0.5 * limit < found.epsilon_lower < 1.5 * limit
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: dpw.canaries.GradientCanaries(9, 8),
            "GradientCanaries: count must be at most dimension, 8, got 9",
        ),
        (
            lambda: dpw.canaries.GradientCanaries(2, 8, -1.0),
            "GradientCanaries: norm must be positive and finite, got -1.0",
        ),
        (
            lambda: dpw.canaries.GradientCanaries(2, 8).scores(np.ones(7)),
            "update must have as many entries as gradients, 8, got 7",
        ),
        (
            lambda: dpw.canaries.canary_records(np.ones((3, 2)), [1, 1, 1], 2),
            "labels must be of at least two kinds, all are 1",
        ),
        (
            lambda: dpw.canaries.canary_records(np.ones((3, 2)), [1, 0], 2),
            r"labels must have one entry per record, 3, got shape \(2,\)",
        ),
        (
            lambda: dpw.canaries.canary_records(np.ones((3, 2)), [1, 0, 1], 2, kind="odd"),
            "kind must be",
        ),
        (
            lambda: dpw.canaries.prediction_scores([1.0], [0]),
            "labels must be -1 or 1 for one number per canary, got 0",
        ),
        (
            lambda: dpw.canaries.prediction_scores([[1.0, 2.0]], [2]),
            "labels must be 0 to 1, of at least two classes, got 2",
        ),
        (
            lambda: dpw.canaries.prediction_scores([[1.0, 2.0]], [0, 1]),
            "labels must have one entry per row of predictions",
        ),
        (
            lambda: GradientSteps(noise_multiplier=0.0),
            "GradientSteps: noise_multiplier must be positive and finite, got 0.0",
        ),
        (
            lambda: GradientSteps(noise_multiplier=1.0, sampling_probability=1.5),
            r"sampling_probability must lie in \(0, 1\], got 1.5",
        ),
        (
            lambda: GradientSteps(noise_multiplier=1.0).log_density(
                np.zeros((1, 1)), np.arange(1, 20) / 40
            ),
            "at most 4096 different batches",
        ),
    ],
)
def test_bad_input_is_told(call, message):
    with pytest.raises(dpw.InvalidArgument, match=message):
        call()


def clipped_by(part, blocks):
    """An update without sampling that clips each gradient by the function `part` of its blocks."""

    def update(gradients, rng):
        clipped = [
            np.concatenate(part(np.split(each, np.cumsum(blocks)[:-1]))) for each in gradients
        ]
        return np.sum(clipped, axis=0) + rng.normal(size=sum(blocks))

    return update


def shortened(vector, order=2):
    return vector / max(1.0, np.linalg.norm(vector, order))


CLIPPINGS = {
    "each block": lambda blocks: [shortened(each) for each in blocks],
    "all but the last block": lambda blocks: [shortened(np.concatenate(blocks[:-1])), blocks[-1]],
    "all but the first block": lambda blocks: [blocks[0], shortened(np.concatenate(blocks[1:]))],
    "each coordinate": lambda blocks: [np.clip(each, -1.0, 1.0) for each in blocks],
    "an upper limit": lambda blocks: [np.minimum(each, 1.0) for each in blocks],
    "the largest entry": lambda blocks: [shortened(np.concatenate(blocks), np.inf)],
    "the l1 norm": lambda blocks: [shortened(np.concatenate(blocks), 1)],
    "the right norm": lambda blocks: [shortened(np.concatenate(blocks))],
}


@pytest.mark.slow_cases(
    "the right norm", "the largest entry", "the l1 norm", "an upper limit", "each block", "each coordinate",
    "all but the first block",
)  # fmt: skip
@pytest.mark.parametrize("clipping", CLIPPINGS)
def test_clipping_by_parts_is_found_on_the_worst_pair(clipping):
    """The density of the right step is another one, so that `certify` ends in an ERROR; the right
    step is never one.
    """
    blocks = (2, 3, 1)
    step = GradientSteps(
        noise_multiplier=1.0,
        delta=1e-3,
        dimension=sum(blocks),
        update=clipped_by(CLIPPINGS[clipping], blocks),
    )
    found = dpw.certify(step, step.worst_pair(), "approx:4,1e-3", trials=10_000, density_runs=0)
    assert (found.verdict is dpw.Verdict.ERROR) == (clipping != "the right norm")


def test_adversarial_pairs_are_long_in_parts_and_everywhere():
    pairs = GradientSteps(noise_multiplier=1.0, dimension=5).adversarial_pairs()
    parts = {tuple(np.flatnonzero(pair.d1[-1])) for pair in pairs}
    assert parts == {(0, 1, 2, 3, 4), (0,), (4,), (0, 1, 2), (3, 4)} and len(pairs) == 10
    assert len(GradientSteps(noise_multiplier=1.0).adversarial_pairs()) == 2
