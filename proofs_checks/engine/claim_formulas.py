"""Comparison of an audited claim's printed formula with the privacy or utility claim that its audit tested."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dpwitness.proofs_checks.engine.declaration import Declaration
from dpwitness.proofs_checks.engine.formulas import Unreadable

_APPROX_FORMULA = re.compile(r"[Pp]\(.+\) <= (?:exp\(epsilon\)|e\^epsilon) [PpQ]\(.+?\) \+ delta((?:, \w+ = [\w.-]+)*)")
_PURE_FORMULA = re.compile(
    r"[Pp][(\[].+[)\]] <= (?:exp\(epsilon\)|e\^epsilon) [PpQ][(\[].+[)\]]"
    r"|(?:sup_w |sup over pairs and w of )?log p\(w \| D\) / p\(w \| D'\) <= epsilon"
)
_RATE_FORMULA = re.compile(r"[^-+]+(?: - [^-+]+)? = O\((1 / )?(n|p|log\(p\)|log p)(?:\^\(?(-?\d+)(?:/(\d+))?\)?)?\)")
_AUDIT_NAMES = {"n": "records"}  # symbol in a formula -> parameter name in an audit


def audit_problem(declared: Declaration, audited: str, at: Mapping[str, Any]) -> str:
    """Return how the printed formula differs from the claim that the entry's audit tested; an empty text if they agree.

    Parameters
    ----------
    declared : Declaration
        Ledger entry of the claim.
    audited : str
        The audit's claim in the notation of its result: ``pure:1``, ``error = O(n^-0.5)``.
    at : mapping
        Parameters at which the audit ran.

    Returns
    -------
    str
        Description of the difference, or an empty text.

    Raises
    ------
    Unreadable
        If the formula is neither a privacy promise nor a rate in n, p or log p.
    """
    text = declared.formula
    if found := _APPROX_FORMULA.fullmatch(text):
        for name, value in re.findall(r", (\w+) = ([\w.-]+)", found[1]):
            if at.get(_AUDIT_NAMES.get(name, name)) != float(value):
                return f"the formula has {name} = {value}, the audit ran at {dict(at)}"
        if found[1] and "epsilon" not in found[1]:
            return "the formula gives parameters, but no epsilon"
        printed = f"approx:{at['epsilon']:g},{at['delta']:g}"
    elif _PURE_FORMULA.fullmatch(text):
        printed = f"pure:{at['epsilon']:g}"
    elif found := _RATE_FORMULA.fullmatch(text):
        exponent = float(found[3] or 1) / float(found[4] or 1)
        printed = f"error = O({'log(p)' if found[2] == 'log p' else found[2]}^{-exponent if found[1] else exponent:g})"
    else:
        raise Unreadable(text)
    return "" if printed == audited else f"the formula promises {printed}, the audit tested {audited}"
