"""Stability audits of transformations: input spaces, results, and the audit."""

from dpwitness.auditors.functions.stability import StabilityResult, audit_stability
from dpwitness.core.domains.spaces import Atom, FrameOf, InputSpace, ScalarOf, VectorOf, space_of
from dpwitness.mechanisms.wrappers.programs.declared import FailedRun

__all__ = [
    "Atom",
    "FailedRun",
    "FrameOf",
    "InputSpace",
    "ScalarOf",
    "StabilityResult",
    "VectorOf",
    "audit_stability",
    "space_of",
]
