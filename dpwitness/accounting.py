"""Audits of accountants: privacy figures of a library, compared with the exact ones."""

from dpwitness.auditors.functions.accounting.audit import audit_accountant
from dpwitness.auditors.functions.accounting.mechanisms import MECHANISMS
from dpwitness.auditors.functions.accounting.result import AccountantResult

__all__ = ["MECHANISMS", "AccountantResult", "audit_accountant"]
