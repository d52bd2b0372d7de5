"""Canaries of private training: their design, their scores, and the best bound that
they can give.
"""

from dpwitness.auditors.canaries.audit import audit_canaries
from dpwitness.auditors.canaries.design import (
    CanaryLimit,
    GradientCanaries,
    canary_limit,
    canary_records,
    prediction_scores,
)
from dpwitness.auditors.canaries.training import (
    CanaryMonitor,
    CanaryProgress,
    ImpliedTraining,
    implied_training,
)

__all__ = [
    "CanaryLimit",
    "CanaryMonitor",
    "CanaryProgress",
    "GradientCanaries",
    "ImpliedTraining",
    "audit_canaries",
    "canary_limit",
    "canary_records",
    "implied_training",
    "prediction_scores",
]
