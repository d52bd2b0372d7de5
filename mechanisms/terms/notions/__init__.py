"""Privacy notions: scalar notions, trade-off curves, notions that depend on the pair of datasets, and their parsing."""

from dpwitness.mechanisms.terms.notions.accounted import DPSGD
from dpwitness.mechanisms.terms.notions.budgets import CoordinateDP, GroupDP, MetricDP, PairClaim, resolved
from dpwitness.mechanisms.terms.notions.curves import Curve, TradeoffCurve
from dpwitness.mechanisms.terms.notions.parsing import exact_claim, parse_claim, promised
from dpwitness.mechanisms.terms.notions.plain import GDP, ApproxDP, Claim, PureDP
from dpwitness.mechanisms.terms.notions.renyi import RDP, ZCDP, RenyiCurve, binary_renyi

__all__ = [
    "DPSGD",
    "GDP",
    "RDP",
    "ZCDP",
    "ApproxDP",
    "Claim",
    "CoordinateDP",
    "Curve",
    "GroupDP",
    "MetricDP",
    "PairClaim",
    "PureDP",
    "RenyiCurve",
    "TradeoffCurve",
    "binary_renyi",
    "exact_claim",
    "parse_claim",
    "promised",
    "resolved",
]
