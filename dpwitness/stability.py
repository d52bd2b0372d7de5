"""Stability audits of transformations: input spaces, results, and the audit."""

from dpwitness.auditors.stability.atoms import Atom
from dpwitness.auditors.stability.audit import audit_stability
from dpwitness.auditors.stability.chains import Step, audit_chains
from dpwitness.auditors.stability.outcomes import Aborted
from dpwitness.auditors.stability.result import StabilityResult
from dpwitness.auditors.stability.spaces import FrameOf, InputSpace, ScalarOf, VectorOf, space_of

__all__ = [
    "Aborted",
    "Atom",
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
