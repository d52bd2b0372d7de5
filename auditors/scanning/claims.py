"""Claim of a proposed call: the promise of its privacy parameters, and the words on which this
reading is based.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from dpwitness.auditors.scanning.arguments import EPSILON
from dpwitness.auditors.scanning.data_forms import Form
from dpwitness.auditors.scanning.vocabulary import APPROXIMATE, GAUSSIAN_NOTION, METRIC, PURE


@dataclass(frozen=True, slots=True)
class ClaimReading:
    """Claim as text for `parse_claim`; empty if none can be read, with the reason in `missing`.

    `guess` says what is guessed of a claim that the library computes.
    """

    text: str
    words: str = ""
    missing: str = ""
    guess: str = ""


def read_claim(privacy: Sequence[tuple[str, str, float]], doc: str, name: str) -> ClaimReading:
    """Return the claim of a call whose arguments include these privacy parameters.

    Parameters
    ----------
    privacy : sequence of (str, str, float)
        Role, name and value of each privacy parameter of the call.
    doc : str
        Docstrings of the function, class and method.
    name : str
        Name of the function or class.
    """
    if {"eps_perm", "eps_1"} == {parameter for _, parameter, _ in privacy}:
        return ClaimReading(f"pure:{EPSILON:g}", "eps_1 is the epsilon of the first report")
    own = [each for each in privacy if not each[0].startswith("budget ")]
    # a call without an epsilon of its own spends the budget that it is given
    privacy = own or [
        (part.removeprefix("budget "), word, number) for part, word, number in privacy
    ]
    gaussian = GAUSSIAN_NOTION.search(f"{name} {doc}")
    privacy = [each for each in privacy if each[0] != "mu" or gaussian]
    numbers = {role: number for role, _, number in privacy}
    roles = set(numbers)
    epsilons = [parameter for role, parameter, _ in privacy if role == "epsilon"]
    if len(set(epsilons)) > 1:
        return ClaimReading(
            "",
            missing="the claim: several parameters spend privacy, "
            f"{' and '.join(dict.fromkeys(epsilons))}",
        )
    if len(epsilons) > 1:
        return ClaimReading("", missing=f"the claim: {epsilons[0]} is set in several places")
    words = quote(doc, privacy[0][1]) if privacy else ""
    if roles == {"rho"}:
        return ClaimReading(f"zcdp:{numbers['rho']!r}", words)
    if roles == {"mu"}:
        return ClaimReading(f"gdp:{numbers['mu']!r}", words)
    if roles == {"epsilon", "delta"} and PURE.search(doc) and not APPROXIMATE.search(doc):
        return ClaimReading(f"pure:{numbers['epsilon']:g}", PURE.search(doc)[0])  # type: ignore[index]
    if roles == {"epsilon", "delta"}:
        return ClaimReading(f"approx:{numbers['epsilon']:g},{numbers['delta']:g}", words)
    if roles == {"epsilon"}:
        if METRIC.search(f"{name} {doc}"):
            return ClaimReading(f"metric:{numbers['epsilon']:g}", words)
        return ClaimReading(f"pure:{numbers['epsilon']:g}", words)
    if roles == {"delta"}:
        return ClaimReading("", missing="the claim: delta without epsilon")
    return ClaimReading(
        "",
        missing="the claim: no parameter is a privacy parameter"
        if not roles
        else f"the claim: {' and '.join(sorted(roles))}",
    )


def claim_of_measurement(lines: Sequence[str], form: Form) -> tuple[str, ...]:
    """Return the lines that compute the claim of an object with `privacy_function` (Tumult's
    measurements) for neighbors of this form.
    """
    metric = {
        "l1": "SumOf",
        "l2": "RootSumOfSquared",
        "add-remove": "SymmetricDifference",
        "replace-one": "HammingDistance",
    }[form.relation]
    metric = "AbsoluteDifference" if form.domain.get("length") == 1 else metric
    return (
        *lines,
        f'if type(mechanism.input_metric).__name__ != "{metric}":',
        '    raise ValueError("the neighbors of this domain are not at distance 1 of " + '
        "type(mechanism.input_metric).__name__)",
        "spent, measure = mechanism.privacy_function(1), type(mechanism.output_measure).__name__",
        "number = lambda value: value.to_float(round_up=True) if hasattr(value, 'to_float') "
        "else float(value)",
        'if measure == "ApproxDP":',
        '    return f"approx:{number(spent[0])!r},{number(spent[1])!r}"',
        'return ("zcdp:" if measure == "RhoZCDP" else "pure:") + repr(number(spent))',
    )


def quote(doc: str, parameter: str) -> str:
    """Return the description of a parameter in a docstring, shortened to one line; empty if there
    is none.

    Examples
    --------
    >>> quote("Parameters\\n----------\\nepsilon : float\\n    Privacy parameter.", "epsilon")
    'epsilon : float: Privacy parameter.'
    """
    lines = doc.splitlines()
    for number, line in enumerate(lines):
        if re.match(
            rf"\s*[-*]?\s*(:param (\w+ )?)?`*{re.escape(parameter)}`*\s*(\(|:|--?\s)", line
        ):
            following = [
                part.strip()
                for part in lines[number + 1 : number + 2]
                if part[:1].isspace() and part.strip()
            ]
            return _shortened(": ".join([line.strip().removeprefix(":param "), *following]))
    sentence = next(
        (
            part
            for part in re.split(r"(?<=[.;])\s+", " ".join(doc.split()))
            if re.search(rf"\b{re.escape(parameter)}\b", part)
        ),
        "",
    )
    return _shortened(sentence)


def _shortened(text: str) -> str:
    plain = " ".join(text.replace('"', "'").split())
    return plain if len(plain) <= 110 else plain[:107] + "..."
