"""The exact law of the privacy loss L = ln p/q of a pair, from the mechanism's log-density.

P is the law of M(D1), Q that of M(D0). All divergences of a pair are functions of the law of L:
hockey-stick divergences, the trade-off curve, Renyi divergences, and the limit of black-box
audits.

A law that is not finite is enclosed between two finite laws.

*Below:* outputs are merged into cells. Merging is post-processing, under which no divergence
grows.

*Above:* a cell's masses (p, q) are split into two atoms at the smallest and the largest loss in
the cell. Merging the two atoms gives the cell's masses, and every L in the cell can be obtained
from the atoms by a randomized map (Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022). So no
divergence falls.

Products preserve both relations, hence composition does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dpwitness.auditors.statistics.mean_limits import bracket
from dpwitness.core.protocols import FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class LossLaw:
    """Law of the privacy loss: atoms in ascending order.

    Examples
    --------
    >>> law = LossLaw(np.log([1 / 3, 3.0]), np.array([0.25, 0.75]), np.array([0.75, 0.25]))
    >>> float(law.hockey_stick(0.0)), float(law.mean().round(4))
    (0.5, 0.5493)
    """

    # values of L: minus infinity where only Q has mass, infinity where only P has mass
    loss: FloatArray
    # mass of each atom under D1; the masses may add to less than 1 in a law that is a lower bound
    p: FloatArray
    q: FloatArray  # mass of each atom under D0
    # mass outside the atoms, counted as infinite loss in a law that is an upper bound
    unseen_p: float = 0.0
    unseen_q: float = 0.0
    # infimum and supremum of L, if they are known better than from atoms that are averages
    extremes: tuple[float, float] | None = None
    # the laws whose independent sum this law is, and how often each occurs
    parts: tuple[tuple[LossLaw, int], ...] = ()

    @classmethod
    def of(
        cls,
        loss: FloatArray,
        p: FloatArray,
        q: FloatArray,
        unseen_p: float = 0.0,
        unseen_q: float = 0.0,
        extremes: tuple[float, float] | None = None,
    ) -> LossLaw:
        """Return the law of atoms that are given in any order. Atoms without mass are omitted."""
        some = (p > 0) | (q > 0)
        order = np.argsort(loss[some], kind="stable")
        return cls(loss[some][order], p[some][order], q[some][order], unseen_p, unseen_q, extremes)

    def hockey_stick(self, epsilon: ArrayLike) -> FloatArray:
        """Return delta(epsilon) = sup_S P(S) - e^epsilon Q(S) = E_P (1 - e^(epsilon - L))_+, at
        each epsilon.
        """
        eps = np.asarray(epsilon, dtype=float)
        flat = eps.ravel()
        out = np.empty(flat.size)
        for i, e in enumerate(flat):
            above = np.searchsorted(self.loss, e, side="right")
            # no BLAS: its threads cost more than they save
            out[i] = -np.sum(self.p[above:] * np.expm1(e - self.loss[above:]))
        return np.clip(out + self.unseen_p, 0.0, 1.0).reshape(eps.shape)

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon >= 0 with delta(epsilon) <= delta; infinity if there is none,
        sup L for delta = 0.
        """
        if delta <= 0:
            return (
                max(0.0, self.supremum)
                # so little unseen mass counts as rounding error
                if self.extremes is not None or self.unseen_p <= 1e-11
                else math.inf
            )
        if self.p[np.isposinf(self.loss)].sum() + self.unseen_p > delta:
            return math.inf
        if self.hockey_stick(0.0) <= delta:
            return 0.0
        finite = self.loss[np.isfinite(self.loss)]
        most = float(finite.max(initial=0.0))
        return bracket(lambda e: bool(self.hockey_stick(e) > delta), 0.0, most, 64)[1]

    def swapped(self) -> LossLaw:
        """Return the law of the loss with P and Q exchanged."""
        extremes = None if self.extremes is None else (-self.extremes[1], -self.extremes[0])
        parts = tuple((part.swapped(), times) for part, times in self.parts)
        return LossLaw(
            -self.loss[::-1],
            self.q[::-1],
            self.p[::-1],
            self.unseen_q,
            self.unseen_p,
            extremes,
            parts,
        )

    @property
    def supremum(self) -> float:
        """Return the largest loss that has mass under P."""
        if self.extremes is not None:
            return self.extremes[1]
        return float(self.loss[self.p > 0].max(initial=-np.inf))

    def mean(self) -> np.float64:
        """Return E_P L, the Kullback-Leibler divergence of P from Q."""
        with_mass = self.p > 0
        return np.float64(self.p[with_mass] @ self.loss[with_mass])

    def renyi(self, order: float) -> float:
        """Return D_order(P || Q) for order > 1, over the atoms and without the unseen mass. The
        divergence adds over parts.
        """
        if self.parts:
            return sum(times * part.renyi(order) for part, times in self.parts)
        with_mass = self.p > 0
        if np.any(np.isposinf(self.loss[with_mass])):
            return math.inf
        with np.errstate(divide="ignore"):
            exponent = np.log(self.p[with_mass]) + (order - 1) * self.loss[with_mass]
        top = float(exponent.max(initial=-np.inf))
        return (
            max(0.0, (top + math.log(np.exp(exponent - top).sum())) / (order - 1))
            if np.isfinite(top)
            else 0.0
        )

    def roc(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return (threshold, Q(L >= threshold), P(L >= threshold)), the ROC curve of the best
        attacker, by descending threshold.
        """
        levels, back = np.unique(self.loss, return_inverse=True)
        p, q = np.bincount(back, self.p), np.bincount(back, self.q)
        return (
            levels[::-1],
            np.minimum(np.cumsum(q[::-1]), 1.0),
            np.minimum(np.cumsum(p[::-1]), 1.0),
        )


@dataclass(frozen=True, slots=True, eq=False)
class EnclosedLaw:
    """Law of the loss between two laws: every divergence of the pair lies between theirs, up to
    rounding and quadrature errors.
    """

    lower: LossLaw
    upper: LossLaw  # the same object as `lower` where the law is exact
    route: str  # how the law was computed, for the report
    # "exact", or "enclosure" between two laws, up to estimated quadrature errors (in the unseen
    # mass)
    label: str
    dimension: int = 0  # number of output coordinates that are integrated over; 0 for enumeration
    # mass of unknown loss that the evaluated outputs leave out, beyond rounding and the estimated
    # errors
    missing: float = 0.0
    refine: Callable[[Sequence[float]], EnclosedLaw] | None = None

    def refined(self, losses: Sequence[float]) -> EnclosedLaw:
        """Return the law with its cells cut where the loss crosses each of `losses`. Hockey-stick
        divergences are exact near these epsilon values.
        """
        return self if self.refine is None else self.refine(losses)


def unaccounted_mass(lower: LossLaw, upper: LossLaw) -> float:
    """Return the mass that quadrature neither covers nor explains by its estimated errors (in the
    unseen mass).
    """
    missing = 0.0
    for mass, unseen in ((lower.p, upper.unseen_p), (lower.q, upper.unseen_q)):
        gap = max(0.0, 1 - math.fsum(mass))
        missing = max(missing, gap - max(0.0, unseen - gap))
    # quadrature may leave out so little in addition to its estimated errors
    return missing if missing > 1e-10 else 0.0


def atoms(log_p: FloatArray, log_q: FloatArray) -> LossLaw:
    """Return the law with one atom for each pair of log-masses."""
    with np.errstate(invalid="ignore"):
        return LossLaw.of(log_p - log_q, np.exp(log_p), np.exp(log_q))
