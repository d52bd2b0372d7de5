"""Audits of accountants: privacy figures of a library, compared with the exact ones."""

from dpwitness.auditors.functions.accountant_figures import MECHANISMS
from dpwitness.auditors.functions.accountants import AccountantResult, audit_accountant

__all__ = ["MECHANISMS", "AccountantResult", "audit_accountant"]
