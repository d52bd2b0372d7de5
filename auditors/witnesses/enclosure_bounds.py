"""Bounds of an enclosure with the evidence for each, and the verdict that they allow.

There are four grades of evidence:

- *Proved*: rational or ball arithmetic over the whole output space.
- *Statistical*: a limit at a stated error that holds for every law allowed by what is known.
- *Numerical*: quadrature, grids and sums in floating point, which may miss peaks between nodes.
- *Assumed*: a bound that rests on an assumption, which the report states.

Only the first two grades refute or certify.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dpwitness.auditors.density.search import WorstOutput
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.core.protocols.mechanism import FloatArray

SOUND = ("proved", "statistical")
EVIDENCE = (*SOUND, "numerical", "assumed")


def grade_of(why: str) -> str:
    """Return the grade at the start of the description of a bound; "numerical" if there is none."""
    word = why.partition(" ")[0].partition("(")[0].partition(":")[0]
    return word if word in EVIDENCE else "numerical"


@dataclass(frozen=True, slots=True)
class End:
    """Lower or upper bound on the claim's parameter, with its evidence."""

    value: float  # bound on the claim's own parameter: epsilon, mu or rho
    # evidence for the bound: a grade with its detail, such as ``statistical(0.001)`` or ``assumed:
    # no output ...``
    why: str
    epsilon: float  # bound on epsilon at the claim's delta (at 0 for GDP, zCDP and RDP)

    @property
    def grade(self) -> str:
        """Return the grade of evidence, one of `EVIDENCE`."""
        return grade_of(self.why)

    @property
    def sound(self) -> bool:
        """Return whether the bound is proved or statistical."""
        return self.grade in SOUND


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Bounds that one route gives for a pair: the claim's parameter, the privacy profile and the
    best attack.
    """

    route: str
    lowers: tuple[End, ...]
    uppers: tuple[End, ...]
    epsilons: FloatArray
    delta_lower: FloatArray
    delta_upper: FloatArray
    fpr: FloatArray = field(default_factory=lambda: np.empty(0))
    tpr_lower: FloatArray = field(default_factory=lambda: np.empty(0))
    tpr_upper: FloatArray = field(default_factory=lambda: np.empty(0))
    worst: WorstOutput | None = None
    notes: tuple[str, ...] = ()

    def with_lower(self, value: float, why: str, epsilon: float) -> Found:
        """Return these bounds with another lower bound."""
        return replace(self, lowers=(*self.lowers, End(value, why, epsilon)))


def decide(lowers: Sequence[End], uppers: Sequence[End], edge: float) -> tuple[Verdict, End, End]:
    """Return the verdict on a claim, and the lower and the upper bound to report with it.

    `edge` is the claimed parameter, with an allowance for rounding. A lower bound that exceeds the
    sound bound that decided is reported with the evidence for both: ``statistical(0) up to 1.2,
    numerical beyond``.
    """
    high, low = min(uppers, key=_value), max(lowers, key=_value)
    refuting = [end for end in lowers if end.sound and end.value > edge]
    certifying = [end for end in uppers if end.sound and end.value <= edge]
    if refuting:
        sound = max(refuting, key=_value)
        if low.value > sound.value * (1 + 1e-9):
            low = replace(low, why=f"{sound.why} up to {sound.value:.6g}, {low.grade} beyond")
        else:
            low = sound
        verdict = Verdict.VIOLATED
    elif certifying:
        best = min(certifying, key=_value)
        return (
            Verdict.CERTIFIED,
            low
            if low.value <= best.value
            else replace(low, value=best.value, epsilon=best.epsilon),
            best,
        )
    else:
        undecided = low.value > edge or not high.value <= edge
        verdict = Verdict.INCONCLUSIVE if undecided else Verdict.SUPPORTED
    # the lower bound of another route may be larger than the upper bound
    high = replace(high, value=max(high.value, low.value), epsilon=max(high.epsilon, low.epsilon))
    return verdict, low, high


def _value(end: End) -> float:
    """Return the value of a bound."""
    return end.value
