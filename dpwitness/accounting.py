"""Audits of accountants: privacy figures of a library, compared with the exact ones."""

from dpwitness.auditors.functions.accounting.audit import AccountantResult, audit_accountant
from dpwitness.auditors.functions.accounting.mechanisms import MECHANISMS

__all__ = ["MECHANISMS", "AccountantResult", "audit_accountant"]
