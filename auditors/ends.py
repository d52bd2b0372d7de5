"""Ends of an enclosure, what each rests on, and the verdict that they allow.

Four grades of evidence. *Proved*: rational or ball arithmetic over the whole output space. *Statistical*: a limit at a stated error that
holds for every law allowed by what is known. *Numerical*: quadrature, grids and sums in floating point, which may miss what lies between
nodes. *Assumed*: one that rests on a sentence, which is told. Only the first two refute or certify.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dpwitness.auditors.result import Verdict

__all__ = ["EVIDENCE", "SOUND", "End", "decide", "grade_of"]

SOUND = ("proved", "statistical")
EVIDENCE = (*SOUND, "numerical", "assumed")


def grade_of(why: str) -> str:
    """The grade that a description of an end begins with; of no end at all, the weakest that is no assumption."""
    word = why.partition("(")[0].partition(":")[0]
    return word if word in EVIDENCE else "numerical"


@dataclass(frozen=True, slots=True)
class End:
    """A lower or upper end of the claim's parameter.

    Parameters
    ----------
    value : float
        The claim's own parameter: epsilon, mu or rho.
    why : str
        What it rests on: a grade, with its detail: ``statistical(0.001)``, ``assumed: no output ...``.
    epsilon : float
        Epsilon at the claim's delta (at 0 for GDP, zCDP and RDP).
    """

    value: float
    why: str
    epsilon: float

    @property
    def grade(self) -> str:
        """One of `EVIDENCE`."""
        return grade_of(self.why)

    @property
    def sound(self) -> bool:
        return self.grade in SOUND


def decide(lowers: Sequence[End], uppers: Sequence[End], edge: float) -> tuple[Verdict, End, End]:
    """The verdict on a claim, and the lower and the upper end to be told with it.

    Parameters
    ----------
    lowers, uppers : sequence of End
        At least one each, the strongest grades first.
    edge : float
        The claimed parameter, with an allowance for rounding.
    """
    high, low = min(uppers, key=lambda end: end.value), max(lowers, key=lambda end: end.value)
    broken = [end for end in lowers if end.sound and end.value > edge]
    if broken:
        return Verdict.VIOLATED, max(broken, key=lambda end: end.value), max(high, broken[0], key=lambda end: end.value)
    kept = [end for end in uppers if end.sound and end.value <= edge]
    if kept:
        sound = max((end for end in lowers if end.sound), key=lambda end: end.value, default=low)
        return Verdict.CERTIFIED, min(low, sound, key=lambda end: end.value), kept[0]
    if low.value > edge or high.value > edge or math.isnan(high.value):
        return Verdict.INCONCLUSIVE, low, max(high, low, key=lambda end: end.value)
    return Verdict.SUPPORTED, low, max(high, low, key=lambda end: end.value)
