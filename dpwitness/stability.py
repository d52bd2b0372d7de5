"""Stability audits of transformations: input spaces, results, and the audit."""

from dpwitness.auditors.functions.stability import Step, audit_chains, audit_stability
from dpwitness.auditors.functions.stability_result import StabilityResult
from dpwitness.core.domains.spaces import Atom, FrameOf, InputSpace, ScalarOf, VectorOf, space_of
from dpwitness.mechanisms.wrappers.programs.declared import FailedRun

__all__ = [
    "Atom",
    "FailedRun",
    "FrameOf",
    "InputSpace",
    "ScalarOf",
    "StabilityResult",
    "Step",
    "VectorOf",
    "audit_chains",
    "audit_stability",
    "space_of",
]
