"""Branch and bound over the plane: spans hold what floats give, and verdicts on pairs that lie on no axis."""

import math

import numpy as np
import pytest
from flint import ctx

from dpwitness.auditors.proved import plane_minimizer as proved_plane
from dpwitness.auditors.proved.bounds import proved_bounds
from dpwitness.mechanisms import GLMObjectivePerturbation, LabelledVectors, LogisticObjectivePerturbation, Loss, Pair, parse_claim
from dpwitness.mechanisms.papers.paper_zoo import paper_zoo


def pair_of(rng, binary, rows=3):
    x = rng.uniform(-0.7, 0.7, (rows, 2))
    y = rng.choice([-1.0, 1.0], rows) if binary else rng.uniform(-2, 2, rows)
    other, label = x.copy(), y.copy()
    other[0], label[0] = rng.uniform(-0.7, 0.7, 2), -y[0]
    if rng.random() < 0.3:
        other[0] = x[0]
    return Pair(LabelledVectors(x, y), LabelledVectors(other, label), "replace-one")


@pytest.mark.parametrize("loss", ["logistic", "huber", "smoothed-huber", "log-cosh"])
def test_spans_over_boxes_and_arcs_hold_the_float_loss(loss):
    """Seeded: 60 boxes and 60 arcs of six pairs each."""
    rng = np.random.default_rng(11)
    for _ in range(6):
        pair = pair_of(rng, loss == "logistic")
        mechanism = GLMObjectivePerturbation(loss=Loss(loss), epsilon=0.8, dimension=2, records=3, regularization=0.7)
        planar, reach = mechanism.plane_ball(pair.d1, pair.d0)
        for side, (d1, d0) in ((planar, (pair.d1, pair.d0)), (planar.turned(), (pair.d0, pair.d1))):
            for _ in range(30):
                corner, width = rng.normal(0, reach / 8, 2), rng.exponential(1.0, 2) * 10.0 ** rng.integers(-3, 2)
                box = [(float(c), float(c + w)) for c, w in zip(corner, width, strict=True)]
                start, stop = rng.uniform(0, 6), float(rng.exponential(1.0)) * 10.0 ** rng.integers(-4, 0)
                inverse = sorted(rng.uniform(0, 1, 2).tolist()) if rng.random() < 0.5 else [0.0, float(rng.uniform(0.1, 1))]
                angle, t = float(start + stop * rng.random()), max(inverse[0], inverse[1] * 10.0 ** -float(rng.exponential(2.0)))
                inside = corner + width * rng.random(2)
                far = reach / t * np.array([math.cos(angle), math.sin(angle)])
                with ctx.workprec(64):
                    spans = side.over(box), side.beyond(reach, (start, start + stop), (inverse[0], inverse[1]))
                for (low, high), w in zip(spans, (inside, far), strict=True):
                    value = float((mechanism.log_density(w[None], d1) - mechanism.log_density(w[None], d0))[0])
                    assert low - 1e-7 <= value <= high + 1e-7


def test_pairs_on_no_axis_are_enclosed(monkeypatch):
    """To 1e-3 where cells suffice; always around what 200,000 random outputs show, and most pairs to 5 % at the least."""
    rng = np.random.default_rng(0)
    pair = pair_of(rng, True)
    mechanism = LogisticObjectivePerturbation(0.5, 0.2, dimension=2, records=3)
    monkeypatch.setattr(proved_plane, "_CELLS", 3000)
    found = proved_bounds(mechanism, pair, parse_claim("pure:0.5"), 200.0)
    w = np.concatenate([rng.normal(0, scale, (40_000, 2)) for scale in (0.3, 2, 10, 60, 1000)])
    loss = np.abs(mechanism.log_density(w, pair.d1) - mechanism.log_density(w, pair.d0)).max()
    assert loss <= found.parameter_upper * (1 + 1e-9)
    assert found.parameter_lower >= loss * (1 - 1e-2)
    assert found.parameter_upper <= found.parameter_lower * 1.05
    assert found.delta_upper[0] >= found.delta_lower[0] >= 0


def test_w4_is_proved_and_its_repair_certified(monkeypatch):
    """Two opposed records among 10^6 that hold the output far out. Cells, not time, end the search here."""
    monkeypatch.setattr(proved_plane, "_CELLS", 3000)
    zoo = paper_zoo()
    printed, repaired = (zoo[f"glm-objective-logistic-gamma-{form}"] for form in ("printed", "repaired"))
    found = proved_bounds(printed.mechanism, printed.pairs[0], parse_claim("pure:1"), 200.0)
    assert 1.0 < found.parameter_lower <= printed.mechanism.truth.parameter
    found = proved_bounds(repaired.mechanism, repaired.pairs[0], parse_claim("pure:1"), 200.0)
    assert found.parameter_upper <= 1.0


def test_noise_of_unbounded_density_has_no_epsilon():
    mechanism = LogisticObjectivePerturbation(1.0, 0.5, "laplace_radius_std", dimension=2)
    assert proved_bounds(mechanism, mechanism.worst_pair(), parse_claim("pure:1")).parameter_lower == math.inf
