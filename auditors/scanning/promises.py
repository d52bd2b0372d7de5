"""Promise of a function as its signature, its arguments and its docstring state it: the claim, and
the neighboring relation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_NAMES = {  # parameter -> notion; standard words only
    "epsilon": re.compile(
        r"((total|target|dp|privacy|per_\w+)_)?(epsilon|eps)(_\w+)?|privacy_budget"
    ),
    "delta": re.compile(r"((total|target|dp|privacy)_)?delta"),
    "rho": re.compile(r"rho|zcdp_rho"),
    "mu": re.compile(r"mu|gdp_mu"),
}
NOISE = re.compile(r"sigma|noise_multiplier|noise_scale|noise_std|scale|stddev|std")
SENSITIVITY = re.compile(r"\w*sens\w*|clip(ping)?_?(norm|bound|threshold)?|l[12]_norm|max_norm")
SCORES = re.compile(r"\w*(utility|utilities|scores?|quality|qualities)")
PRIVACY = re.compile(
    r"differential(ly)?[ -]priva|\bdp\b|\bldp\b|\bpriva(te|cy)\b|laplace|gaussian noise|"
    r"randomi[sz]ed.response|"
    r"(gaussian|exponential|geometric|staircase|sparse.vector)[ _-](mech|techn)",
    re.I,
)
_GAUSSIAN = re.compile(r"\bGDP\b|gaussian differential(ly)? priva", re.I)
_STATED = re.compile(r"\b(epsilon|delta|rho)\s*(?:=|is|of)\s*(\d+(?:\.\d+)?(?:e-?\d+)?)")
_METRIC = re.compile(r"metric.?(priv|dp)|geo.?indist|\bd_x\b|planar laplace", re.I)
_PURE = re.compile(r"\bpure[- ]", re.I)
_ADD_REMOVE = re.compile(
    r"add(ing|ed|ition)?[ -/]*(or|and|/)?[ -]*(of )?remov|unbounded (dp|differential)|"
    r"presence or absence",
    re.I,
)
_REPLACE_ONE = re.compile(
    r"(replac|chang|modif|substitut|swap)(e|ing|es|ed)? (of )?(one|a single|any single)|substitut|"
    r"bounded (dp|differential)|replace-one|change-one|differ(ing)? in (exactly )?one",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Promise:
    """Promise of a call.

    Attributes
    ----------
    claim : str
        For `parse_claim`; empty if none is stated.
    because : str
        The words that state the claim; without a claim, the missing part.
    """

    claim: str
    because: str


def privacy_parameters(names: Sequence[str]) -> dict[str, str]:
    """Return the parameters that state a claim, by their notion.

    Examples
    --------
    >>> privacy_parameters(["data", "eps", "delta", "sigma"])
    {'epsilon': 'eps', 'delta': 'delta'}
    """
    return {
        notion: matching[0]
        for notion, pattern in _NAMES.items()
        if (matching := [n for n in names if pattern.fullmatch(n.lower().strip("_"))])
    }


def promise_of(
    names: Sequence[str], values: Mapping[str, float], laws: Sequence[str], doc: str
) -> Promise:
    """Return the promise of a call.

    Parameters
    ----------
    names : sequence of str
        Parameters of the function, and of the constructor of its class.
    values : mapping of str to float
        Numbers that the call gives them.
    laws : sequence of str
        Laws of the noise that the function reaches.
    doc : str
        Docstrings of the function and of its class.
    """
    known = privacy_parameters(names)
    if not _GAUSSIAN.search(doc):
        known.pop("mu", None)
    epsilons = [name for name in names if _NAMES["epsilon"].fullmatch(name.lower().strip("_"))]
    if len(epsilons) > 1:
        return Promise("", f"which of {', '.join(epsilons)} is the claim")
    numbers = {notion: values[name] for notion, name in known.items() if name in values}
    stated_by = f"parameter {', '.join(known.values())}"
    told = {(notion, float(value)) for notion, value in _STATED.findall(doc)}
    if not known and told and len(dict(told)) == len(told):  # each notion has one value
        numbers, stated_by = dict(told), "the docstring"
    gaussian = "gaussian" in laws and not {"laplace", "geometric", "exponential"} & {*laws}
    noise = [name for name in names if NOISE.fullmatch(name.lower())]
    epsilon, delta, rho, mu = (numbers.get(name, 0.0) for name in ("epsilon", "delta", "rho", "mu"))
    approximate = delta > 0 and (gaussian or not _PURE.search(doc))
    stated = "epsilon" in numbers
    rules = (  # whether the rule applies, the claim, the words that state it or what is missing
        (not stated and "rho" in numbers, f"zcdp:{rho:g}", stated_by),
        (not stated and "mu" in numbers, f"gdp:{mu:g}", stated_by),
        (not stated and noise, "", f"the claim: {', '.join(noise[:1])} is a scale of noise"),
        (not stated, "", "the claim"),
        (epsilon < 1e-4, "", f"the claim: epsilon = {epsilon:g} is a tolerance"),
        (
            _METRIC.search(doc),
            f"metric:{epsilon:g}",
            f"{stated_by}, and the docstring speaks of a metric",
        ),
        (approximate, f"approx:{epsilon:g},{delta:g}", stated_by),
        (gaussian, "", "the delta of its Gaussian noise"),
        (True, f"pure:{epsilon:g}", stated_by),
    )
    return next(Promise(claim, because) for applies, claim, because in rules if applies)


def relation_of(doc: str) -> str:
    """Return the relation that a docstring names; empty if the docstring names neither or both of
    add-remove and replace-one.

    Examples
    --------
    >>> relation_of("Neighbors differ by adding or removing one row.")
    'add-remove'
    """
    adding, replacing = bool(_ADD_REMOVE.search(doc)), bool(_REPLACE_ONE.search(doc))
    return "" if adding == replacing else "add-remove" if adding else "replace-one"
