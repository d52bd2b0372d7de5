"""How far a finding reaches: over the whole domain of its claim, over a box of which a part may stay undecided, or at one point.

It is computed from what was run. A branch and bound says which share of its box it settled. z3 and computer algebra quantify over all
reals that their terms name, so that a claim without parameters is settled for all of them; numbers at which a check was run are a point.
"""

from __future__ import annotations

from dpwitness.proofs_checks.engine.enclosures import Box, SignMap

WHOLE, BOX, POINT = "whole domain", "box", "point"


def scope_of(domain: Box, asked: Box, boxed: bool, signs: SignMap | None, own: str) -> str:
    """`WHOLE`, `BOX` or `POINT`, for a check of a claim over `domain` that was run over (or at) `asked`, and that says `own` of itself."""
    if boxed and signs is not None:
        if all(low == high for low, high in asked.values()):
            return POINT
        return WHOLE if dict(asked) == dict(domain) and signs.undecided == 0 else BOX
    if domain:
        return POINT
    settled = signs is not None and signs.undecided == 0
    return WHOLE if settled or own == WHOLE else POINT


def shares(signs: SignMap) -> str:
    """Of the box: where the claim is proved to fail, to hold, and neither."""
    parts = ((signs.positive, "fails on"), (signs.negative, "holds on"))
    found = [f"{word} {_percent(share)}" for share, word in parts if share > 0]
    if signs.undecided > 0:
        found.append(f"{_percent(signs.undecided)} undecided")
    return ", ".join(found)


def _percent(share: float) -> str:
    return "all of it" if share == 1 else f"{100 * share:.3g} %"
