"""Privacy claims of every notion, and the parser of their short form."""

from dpwitness.core.claims import (
    DPSGD,
    GDP,
    RDP,
    ZCDP,
    ApproxDP,
    Claim,
    CoordinateDP,
    GroupDP,
    MetricDP,
    PureDP,
    RenyiCurve,
    TradeoffCurve,
    parse_claim,
)

__all__ = [
    "DPSGD",
    "GDP",
    "RDP",
    "ZCDP",
    "ApproxDP",
    "Claim",
    "CoordinateDP",
    "GroupDP",
    "MetricDP",
    "PureDP",
    "RenyiCurve",
    "TradeoffCurve",
    "parse_claim",
]
