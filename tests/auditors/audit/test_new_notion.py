"""A privacy notion that the package does not know, `TruncatedCDP`, goes through every audit: its
class registers itself.
"""

import json
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import dpwitness as dpw
from dpwitness import mechanisms as m
from dpwitness.auditors.witnesses.kinds import recompute_bounds
from dpwitness.core.claims import exact_claim, parse_claim
from dpwitness.core.claims.notions import RenyiClaim, binary_renyi
from dpwitness.core.values.validation import InvalidArgument, require
from dpwitness.reports.report import write_report

PAIR = m.Pair(np.array([0.0]), np.array([1.0]), relation="l1")


@dataclass(frozen=True, slots=True)
class TruncatedCDP(RenyiClaim):
    """(rho, omega)-truncated concentrated DP: D_a <= rho a for every order 1 < a < omega (Bun,
    Dwork, Rothblum and Steinke 2018).
    """

    rho: float
    omega: float

    form: ClassVar[str] = "tcdp:RHO,OMEGA"
    notion: ClassVar[str] = "truncated concentrated differential privacy"
    symbol: ClassVar[str] = "rho"
    has_tangents: ClassVar[bool] = True

    def __post_init__(self):
        require(self).positive("rho", "omega")
        if self.omega <= 1:
            raise InvalidArgument(f"TruncatedCDP: omega must be greater than 1, got {self.omega!r}")

    def with_parameter(self, value):
        return TruncatedCDP(value, self.omega)

    def orders_among(self, orders):
        return tuple(a for a in orders if a < self.omega) or (0.5 * (1 + self.omega),)

    def divergence_at(self, order):
        return order

    def parameter_at(self, fpr, tpr):
        q, p = np.broadcast_arrays(np.asarray(fpr, dtype=float), np.asarray(tpr, dtype=float))
        orders = self._orders(6)
        return np.where(
            p > q, (binary_renyi(orders, p[..., None], q[..., None]) / orders).max(axis=-1), 0.0
        )

    def enclosed(self, pair_order):
        """Enclose the supremum of D_a / a: D_a rises with a, so D_b / a is a bound on [a, b]."""
        orders = [1.0, *self._orders(120), self.omega]
        spans = [pair_order.renyi(order) for order in orders[1:]]
        low = max(span[0] / order for span, order in zip(spans, orders[1:], strict=True))
        return low * (1 - 1e-12), max(
            span[1] / order for span, order in zip(spans, orders, strict=False)
        ) * (1 + 1e-12)

    def delta(self, epsilon):
        """Return a delta for each epsilon >= 0 (Canonne, Kamath and Steinke 2020,
        Proposition 12).
        """
        a = self._orders(200)
        epsilon = np.asarray(epsilon, dtype=float)[..., None]
        bound = np.exp((a - 1) * (self.rho * a - epsilon) + a * np.log1p(-1 / a)) / (a - 1)
        return np.clip(bound.min(axis=-1), 0.0, 1.0)

    def tangents(self):
        epsilons = np.linspace(self.rho * self.omega + 20 / (self.omega - 1), 0.0, 200)
        deltas = self.delta(epsilons)
        return np.concatenate([epsilons, -epsilons[::-1]]), np.concatenate(
            [deltas, 1 - (1 - deltas[::-1]) * np.exp(-epsilons[::-1])]
        )

    def _orders(self, size):
        return np.geomspace(1.0, self.omega, size + 2)[1:-1]

    def __str__(self):
        return f"tcdp:{self.rho:g},{self.omega:g}"


def normal(scale):
    return lambda dataset, size, rng: dataset[0] + rng.normal(0.0, scale, size)


def test_its_text_is_parsed_and_spelled():
    claim = parse_claim("tcdp:0.5,8")
    assert (
        claim
        == TruncatedCDP(0.5, 8.0)
        == exact_claim("tcdp:0.5,8", [0.5, 8.0])
        == parse_claim(claim.spelled)
    )
    assert parse_claim("group:1,tcdp:0.5,8").on(None) == claim
    with pytest.raises(InvalidArgument, match="must have the form tcdp:RHO,OMEGA"):
        parse_claim("tcdp:0.5")
    with pytest.raises(InvalidArgument, match=r"one of .*tcdp:RHO,OMEGA.*did you mean tcdp:1,8"):
        parse_claim("tcpd:1,8")


@pytest.mark.slow
def test_audit_report_witness_and_replay(tmp_path):
    """Normal noise of scale 1 has rho = 0.5; of scale 0.5, rho = 2. The false-failure probability
    is 1e-7.
    """
    claim = parse_claim("tcdp:0.5,8")
    kept = dpw.audit(normal(1.0), claim=claim, pair=PAIR, trials=4_000, seed=5, confidence=1 - 1e-7)
    assert kept.verdict is dpw.Verdict.NOT_REFUTED and 0.05 < kept.parameter_lower <= 0.5
    broken = dpw.audit(normal(0.5), claim=claim, pair=PAIR, trials=4_000, seed=6)
    assert broken.verdict is dpw.Verdict.VIOLATED
    document = json.loads(json.dumps(broken.to_json()))
    assert exact_claim(document["claim"], document["claim_numbers"]) == claim
    assert recompute_bounds(document).values["parameter_lower"] == pytest.approx(
        broken.parameter_lower
    )
    file = tmp_path / "witness.json"
    file.write_text(json.dumps(broken.witness))
    assert dpw.replay(file, mechanism=normal(0.5), seed=7).verdict is dpw.Verdict.VIOLATED
    assert dpw.replay(file, mechanism=normal(1.0), seed=8).verdict is dpw.Verdict.NOT_REFUTED
    write_report([kept, broken], tmp_path, title="notion")
    assert "truncated concentrated differential privacy" in (tmp_path / "audit.md").read_text()


def test_certify_proves_the_parameter():
    """The normal law of scale sigma has D_a = a / (2 sigma^2), so rho = 1 / (2 sigma^2), whatever
    omega is.
    """
    gaussian = m.Gaussian(1.0, 1e-5)
    rho = 0.5 / gaussian.sigma**2
    kept = dpw.certify(gaussian, gaussian.worst_pair(), TruncatedCDP(1.1 * rho, 8.0), trials=10_000)
    assert kept.verdict is dpw.Verdict.CERTIFIED and kept.route.startswith("proved")
    assert (
        kept.parameter_lower <= rho * (1 + 1e-9)
        and rho * (1 - 1e-9) <= kept.parameter_upper < 1.02 * rho
    )
    assert (
        dpw.certify(
            gaussian, gaussian.worst_pair(), TruncatedCDP(0.9 * rho, 8.0), trials=10_000
        ).verdict
        is dpw.Verdict.VIOLATED
    )
