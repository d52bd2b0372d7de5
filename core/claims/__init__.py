"""Privacy notions: plain notions, trade-off curves, notions that depend on the pair of datasets,
and the text form of all notions.
"""

from dpwitness.core.claims.accounting import DPSGD
from dpwitness.core.claims.basic_notions import GDP, ApproxDP, PureDP
from dpwitness.core.claims.claim import Claim, exact_claim, exact_text, parse_claim, promised
from dpwitness.core.claims.pair_budgets import CoordinateDP, GroupDP, MetricDP, PairClaim, resolved
from dpwitness.core.claims.renyi import RDP, ZCDP, RenyiCurve, binary_renyi
from dpwitness.core.claims.tradeoff_curves import Curve, TradeoffCurve

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
