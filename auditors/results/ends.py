"""Ends of an enclosure, what each rests on, and the verdict that they allow.

Four grades of evidence. *Proved*: rational or ball arithmetic over the whole output space. *Statistical*: a limit at a stated error that
holds for every law allowed by what is known. *Numerical*: quadrature, grids and sums in floating point, which may miss what lies between
nodes. *Assumed*: one that rests on a sentence, which is told. Only the first two refute or certify.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dpwitness.auditors.loss.search import WorstOutput
from dpwitness.auditors.results.verdicts import Verdict
from dpwitness.mechanisms.terms.protocol import FloatArray

SOUND = ("proved", "statistical")
EVIDENCE = (*SOUND, "numerical", "assumed")


def grade_of(why: str) -> str:
    """The grade that a description of an end begins with; of no end at all, the weakest that is no assumption."""
    word = why.partition(" ")[0].partition("(")[0].partition(":")[0]
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


@dataclass(slots=True, eq=False)
class Found:
    """What one route says of a pair: ends, the privacy profile and the best attack, from below and from above."""

    route: str
    lowers: list[End]
    uppers: list[End]
    epsilons: FloatArray
    delta_lower: FloatArray
    delta_upper: FloatArray
    fpr: FloatArray = field(default_factory=lambda: np.empty(0))
    tpr_lower: FloatArray = field(default_factory=lambda: np.empty(0))
    tpr_upper: FloatArray = field(default_factory=lambda: np.empty(0))
    worst: WorstOutput | None = None
    notes: list[str] = field(default_factory=list)


def decide(lowers: Sequence[End], uppers: Sequence[End], edge: float) -> tuple[Verdict, End, End]:
    """The verdict on a claim, and the lower and the upper end to be told with it.

    Parameters
    ----------
    lowers, uppers : sequence of End
        At least one each.
    edge : float
        The claimed parameter, with an allowance for rounding.

    Notes
    -----
    A number that goes further than the sound end that decided is told with both: ``statistical(0) up to 1.2, numerical beyond``.
    """
    high, low = min(uppers, key=_size), max(lowers, key=_size)
    broken = [end for end in lowers if end.sound and end.value > edge]
    if broken:
        sound = max(broken, key=_size)
        if low.value > sound.value * (1 + 1e-9):
            low = replace(low, why=f"{sound.why} up to {sound.value:.6g}, {low.grade} beyond")
        else:
            low = sound
        return Verdict.VIOLATED, low, _above(high, low)
    kept = [end for end in uppers if end.sound and end.value <= edge]
    if kept:
        best = min(kept, key=_size)
        return Verdict.CERTIFIED, low if low.value <= best.value else replace(low, value=best.value, epsilon=best.epsilon), best
    if low.value > edge or not high.value <= edge:
        return Verdict.INCONCLUSIVE, low, _above(high, low)
    return Verdict.SUPPORTED, low, _above(high, low)


def _size(end: End) -> float:
    return end.value


def _above(high: End, low: End) -> End:
    """The upper end, raised where a lower one of another route passes it."""
    return replace(high, value=max(high.value, low.value), epsilon=max(high.epsilon, low.epsilon))
