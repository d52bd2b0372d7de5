"""Scope of a finding: the claim's whole domain, a box with a possibly undecided part, or one point.

The scope follows from the method. Branch and bound reports the share of its box with a proved sign. z3 and computer algebra quantify over
all reals in their terms, so they settle a claim without parameters for its whole domain. A check that runs at given numbers has the scope
of one point.
"""

from __future__ import annotations

from dpwitness.proofs_checks.engine.enclosures import Box, SignMap

WHOLE, BOX, POINT = "whole domain", "box", "point"


def scope_of(domain: Box, asked: Box, boxed: bool, signs: SignMap | None, own: str) -> str:
    """Return the scope of a finding: `WHOLE`, `BOX` or `POINT`.

    `domain` is the claim's domain, `asked` the box or point that was checked, and `own` the scope that the check's evidence states.
    """
    if boxed and signs is not None:
        if all(low == high for low, high in asked.values()):
            return POINT
        return WHOLE if dict(asked) == dict(domain) and signs.undecided == 0 else BOX
    if domain:
        return POINT
    settled = signs is not None and signs.undecided == 0
    return WHOLE if settled or own == WHOLE else POINT


def shares(signs: SignMap) -> str:
    """Describe the shares of the box on which the claim is proved to fail, proved to hold, and undecided."""
    parts = ((signs.positive, "fails on"), (signs.negative, "holds on"))
    parts_text = [f"{word} {_percent(share)}" for share, word in parts if share > 0]
    if signs.undecided > 0:
        parts_text.append(f"{_percent(signs.undecided)} undecided")
    return ", ".join(parts_text)


def _percent(share: float) -> str:
    return "all of it" if share == 1 else f"{100 * share:.3g} %"
