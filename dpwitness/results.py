"""Results of audits, and the highest bound that any test could certify."""

from dpwitness.auditors.bounds.sensitivity import SensitivityResult
from dpwitness.auditors.bounds.utility import UtilityResult
from dpwitness.auditors.planning.plan_result import Plan
from dpwitness.auditors.privacy_loss.limit import limit
from dpwitness.auditors.results.audit_result import AuditResult
from dpwitness.auditors.results.canary_result import CanaryResult
from dpwitness.auditors.results.certify_result import CertifyResult
from dpwitness.auditors.results.trace_result import TraceResult

__all__ = ["AuditResult", "CanaryResult", "CertifyResult", "Plan", "SensitivityResult", "TraceResult", "UtilityResult", "limit"]
