"""Results of audits, and the highest bound that any test could certify."""

from dpwitness.auditors.audit.plan import Plan
from dpwitness.auditors.density.limit import limit
from dpwitness.auditors.functions.bounds.sensitivity import SensitivityResult
from dpwitness.auditors.functions.bounds.utility import UtilityResult
from dpwitness.auditors.witnesses.audit_result import AuditResult, TraceResult
from dpwitness.auditors.witnesses.canary_result import CanaryResult
from dpwitness.auditors.witnesses.certify_result import CertifyResult

__all__ = [
    "AuditResult",
    "CanaryResult",
    "CertifyResult",
    "Plan",
    "SensitivityResult",
    "TraceResult",
    "UtilityResult",
    "limit",
]
