"""Results of audits, and the highest bound that any test could certify."""

from dpwitness.auditors.audit.plan import Plan
from dpwitness.auditors.audit.result import AuditResult
from dpwitness.auditors.canaries.result import CanaryResult
from dpwitness.auditors.density.limit import limit
from dpwitness.auditors.density.result import CertifyResult
from dpwitness.auditors.functions.sensitivity import SensitivityResult
from dpwitness.auditors.functions.utility import UtilityResult
from dpwitness.auditors.traces.result import TraceResult

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
