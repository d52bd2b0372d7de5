"""Privacy notions: plain notions, trade-off curves, notions that depend on the pair of datasets, and the text form of all notions."""

from dpwitness.mechanisms.privacy.accounting import DPSGD
from dpwitness.mechanisms.privacy.basic_notions import GDP, ApproxDP, PureDP
from dpwitness.mechanisms.privacy.claim import Claim
from dpwitness.mechanisms.privacy.pair_budgets import CoordinateDP, GroupDP, MetricDP, PairClaim, resolved
from dpwitness.mechanisms.privacy.parsing import exact_claim, exact_text, parse_claim, promised
from dpwitness.mechanisms.privacy.renyi import RDP, ZCDP, RenyiCurve, binary_renyi
from dpwitness.mechanisms.privacy.tradeoff_curves import Curve, TradeoffCurve

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
