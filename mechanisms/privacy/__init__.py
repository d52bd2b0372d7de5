"""Privacy notions: the plain ones, those that are curves, those that depend on the pair of datasets, and how all of them are written."""

from dpwitness.mechanisms.privacy.accounting import DPSGD
from dpwitness.mechanisms.privacy.base import GDP, ApproxDP, PureDP
from dpwitness.mechanisms.privacy.claim import Claim
from dpwitness.mechanisms.privacy.pair_budgets import CoordinateDP, GroupDP, MetricDP, PairClaim, resolved
from dpwitness.mechanisms.privacy.parsing import exact_claim, parse_claim, promised
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
    "parse_claim",
    "promised",
    "resolved",
]
