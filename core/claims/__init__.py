"""Privacy notions: plain notions, trade-off curves, notions that depend on the pair of datasets,
and the text form of all notions.
"""

from dpwitness.core.claims.claim import Claim, exact_claim, exact_text, parse_claim, promised
from dpwitness.core.claims.notions import GDP, RDP, ZCDP, ApproxDP, PureDP, RenyiCurve, binary_renyi
from dpwitness.core.claims.pair_budgets import CoordinateDP, GroupDP, MetricDP, PairClaim, resolved
from dpwitness.core.claims.tradeoff_curves import DPSGD, Curve, TradeoffCurve

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
    "exact_text",
    "parse_claim",
    "promised",
    "resolved",
]
