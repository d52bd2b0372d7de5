"""Entries for accountants: which mechanism a function accounts for, which parameter each argument is, and what the function returns."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dpwitness.auditors.scanning.names import PublicName
from dpwitness.auditors.scanning.readings import Reading, returned_quantity
from dpwitness.auditors.scanning.vocabulary import SCALES, role
from dpwitness.mechanisms.core.json_reader import Json

_PARAMETERS: tuple[tuple[str, str], ...] = (  # words of arguments, and the parameter of `audit_accountant` that they are
    (r"q|sample_rate|sampling_rate|sampling_prob(ability)?|sampling_probability|subsampling_rate|prob|gamma", "q"),
    (r"steps|num_steps|n_steps|t|iterations|num_iterations|rounds|num_compositions|compositions|k|count|num_queries", "steps"),
    (r"alpha|order|renyi_order", "order"),
    (r"mu", "mu"),
)


@dataclass(frozen=True, slots=True)
class AccountantEntry:
    """Entry of an accountant in TARGETS, the source of the function that it names, and what is missing."""

    declaration: Json
    source: tuple[str, ...]
    missing: str = ""


def accountant_entry(reading: Reading, target: str) -> AccountantEntry:
    """Return the entry of an accountant, with its guesses; `missing` names required arguments of unknown meaning."""
    name = reading.name
    mechanism = _mechanism(name)
    known = {p.name: _meaning(p.word, role(p), mechanism) for p in name.parameters or () if p.is_named}
    used = {argument: meaning for argument, meaning in known.items() if meaning}
    unknown = [p.name for p in name.parameters or () if p.required and p.is_named and not known[p.name]]
    repeated = {meaning for meaning in used.values() if list(used.values()).count(meaning) > 1}
    missing = (
        f"the meaning of {', '.join(unknown)}" if unknown else f"several arguments may be {', '.join(sorted(repeated))}" if repeated else ""
    )
    returns = returned_quantity(reading)
    spelled = name.name if name.shadowed else name.path
    arguments = ", ".join(f"{each}={each}" for each in used)
    source = (f"def {target}({', '.join(used)}):", f"    return {spelled}({arguments})")
    guess = f"{name.name} returns {returns} of the {mechanism} mechanism, read from its name and from the names of its arguments"
    declaration = {
        "kind": "accountant",
        "function": target,
        "mechanism": mechanism,
        "parameters": used,
        "returns": returns,
        "guessed": guess,
    }
    return AccountantEntry(declaration, source, missing)


def _mechanism(name: PublicName) -> str:
    """Return the mechanism that a function accounts for, by its name, arguments and docstring."""
    text, words = f"{name.name} {name.doc[:600]}".lower(), [p.word for p in name.parameters or ()]
    sampled = any(_meaning(word, "other", "") == "q" for word in words)
    if "laplace" in text and "gauss" not in text:
        return "laplace"
    if any(word == "mu" for word in words) or "gdp" in name.name.lower():
        return "gdp"
    if any(role(p) == "rho" for p in name.parameters or ()):
        return "zcdp"
    return "subsampled-gaussian" if sampled else "gaussian"


def _meaning(word: str, part: str, mechanism: str) -> str:
    """Return the parameter that an argument is; empty if unknown."""
    if part in ("epsilon", "delta", "rho", "sensitivity"):
        return part
    if word in SCALES:
        return "scale" if mechanism == "laplace" else "sigma"
    return next((meaning for pattern, meaning in _PARAMETERS if re.fullmatch(pattern, word)), "")
