"""Privacy losses of the calls of a trace, and their composition.

The law of a call's loss follows from the distance of the call's inputs and from its scale. The loss
belongs to one pair and one trace. The loss is exact where the inputs of a call are a function of
the data and of earlier noise, which both runs share. The loss is not a bound over other pairs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import softmax

from dpwitness.auditors.density.bounds import bounds_from_law
from dpwitness.auditors.density.composition import compose
from dpwitness.auditors.density.limit import discrete_laplace, finite, gaussian, laplace
from dpwitness.auditors.statistics.loss_law import EnclosedLaw, LossLaw
from dpwitness.core.claims import Claim
from dpwitness.core.protocols.mechanism import FloatArray

NORM = {
    "laplace": "l1",
    "geometric": "l1",
    "exponential": "l1",
    "one_sided_geometric": "l1",
    "gaussian": "l2",
    "discrete_gaussian": "l2",
}
_MAX_GROUPS = 48  # largest number of different laws that are composed
_DIGITS = 9  # digits to which equal losses agree
_PLAIN = ("uniform", "noise", "permutation", "poisson_sample", "spend")


@dataclass(slots=True)
class Losses:
    """Losses of calls, collected by law."""

    # (law, distance over scale) -> times
    epsilons: Counter[tuple[str, float]] = field(default_factory=Counter)
    # sum of squared distances of normal noise, in units of its standard deviation
    squares: float = 0.0
    laws: list[LossLaw] = field(default_factory=list)  # laws with finitely many outcomes
    # (epsilon, delta) of mechanisms with no other information
    bounded: list[tuple[float, float]] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)  # names of calls

    def pure(self) -> float:
        """Return the largest composed loss, the epsilon at delta = 0. NaN if a law is unknown."""
        if self.unknown:
            return math.nan
        if self.squares or any(delta for _, delta in self.bounded):
            return math.inf
        certain = sum(abs(max(law.supremum, law.swapped().supremum)) for law in self.laws)
        return (
            sum(e * n for (_, e), n in self.epsilons.items())
            + certain
            + sum(e for e, _ in self.bounded)
        )

    def parameter(self, claim: Claim) -> float:
        """Return the claim's parameter to which the losses compose, at the claim's delta. NaN if a
        law is unknown.
        """
        if self.unknown:
            return math.nan
        if claim.is_pure:
            return self.pure()
        parts = [(_exact_law(_noise_law(law, e)), n) for (law, e), n in self._grouped().items()]
        if self.squares:
            parts.append((_exact_law(gaussian(math.sqrt(self.squares))), 1))
        parts += [(_exact_law(law), 1) for law in self.laws]
        parts += [(_exact_law(_worst_law(e, d)), 1) for e, d in self.bounded]
        if not parts:
            return 0.0
        known = claim.gaussian_parameter(self.squares) if len(parts) == 1 and self.squares else None
        return (
            known
            if known is not None
            else float(bounds_from_law(compose(parts), claim).lowers[0].value)
        )

    def _grouped(self) -> Counter[tuple[str, float]]:
        """Return the epsilons in at most `_GROUPS` groups, each rounded down to a law with a
        smaller loss.
        """
        if len(self.epsilons) <= _MAX_GROUPS:
            return self.epsilons
        levels = np.quantile([e for _, e in self.epsilons], np.linspace(0, 1, _MAX_GROUPS))
        found: Counter[tuple[str, float]] = Counter()
        for (_, e), n in self.epsilons.items():
            found[
                "laplace", float(levels[max(int(np.searchsorted(levels, e, side="right")) - 1, 0)])
            ] += n
        return found


def _exact_law(law: LossLaw) -> EnclosedLaw:
    """Return the law as an exact enclosure."""
    return EnclosedLaw(law, law, "closed form", "exact")


def _noise_law(law: str, epsilon: float) -> LossLaw:
    """Return the loss law of Laplace or two-sided geometric noise with this epsilon."""
    return (
        discrete_laplace(1, epsilon=epsilon)
        if law == "geometric" and epsilon > 0.3
        else laplace(epsilon)
    )


def _worst_law(epsilon: float, delta: float) -> LossLaw:
    """Return the worst loss law of an (epsilon, delta) mechanism (Kairouz, Oh and
    Viswanath 2015).
    """
    keep = (1 - delta) / (1 + math.exp(min(epsilon, 700.0)))
    return finite([delta, (1 - delta) - keep, keep, 0.0], [0.0, keep, (1 - delta) - keep, delta])


def add(losses: Losses, name: str, law: str, call: Call) -> float:
    """Add the loss of one call to `losses`, and return the loss at delta = 0."""
    if law in _PLAIN:
        return 0.0
    # the input does not move, or there is no input
    if call.alone == 0 and call.inputs is None and not (call.distance > 0):
        return 0.0
    if law in NORM and law not in ("gaussian", "discrete_gaussian"):
        return _add_laplace_like(losses, name, law, call)
    if law in ("gaussian", "discrete_gaussian"):
        with np.errstate(divide="ignore", invalid="ignore"):
            square = (
                float(np.sum((call.moves / call.scale) ** 2))
                if np.all(call.scale > 0)
                else math.inf
            )
        if math.isnan(square):
            losses.unknown.append(name)
            return math.nan
        losses.squares += square
        return math.inf if square > 0 else 0.0
    if law in ("choice", "binomial", "exponential_mechanism", "permute_and_flip"):
        found = _selection_law(law, call)
        if found is None:
            losses.unknown.append(name)
            return math.nan
        losses.laws.append(found)
        return max(found.supremum, found.swapped().supremum)
    # only an epsilon for a distance is declared: charge in proportion to the distance
    if not math.isnan(call.epsilon):
        ratio = (
            call.distance / call.sensitivity if call.sensitivity > 0 and call.distance > 0 else 1.0
        )
        steps = (
            ratio if ratio <= 1 else math.ceil(ratio - 1e-9) if math.isfinite(ratio) else math.inf
        )
        losses.bounded.append(
            (call.epsilon * steps, 0.0 if math.isnan(call.delta) else min(call.delta * steps, 1.0))
        )
        return call.epsilon * steps if not call.delta > 0 else math.inf
    losses.unknown.append(name)
    return math.nan


@dataclass(frozen=True, slots=True)
class Call:
    """Numbers of one call: change of each entry of its input, scale, and declared values (NaN if
    not declared).
    """

    moves: FloatArray
    distance: float
    scale: Any = math.nan
    sensitivity: float = math.nan
    epsilon: float = math.nan
    delta: float = math.nan
    inputs: Any = None
    alone: int = 0  # 1 if inputs that are not numbers differ


def _add_laplace_like(losses: Losses, name: str, law: str, call: Call) -> float:
    """Add the losses of Laplace-like noise by entry, and return their sum."""
    if (
        law in ("laplace", "geometric", "exponential")
        and isinstance(call.scale, float)
        and call.moves.size == 1
        and call.scale > 0
    ):
        ratio = round(float(call.moves[0]) / call.scale, _DIGITS)
        losses.epsilons["geometric" if law == "geometric" else "laplace", ratio] += 1
        return ratio
    scale = np.asarray(call.scale, dtype=float)
    if law == "one_sided_geometric":  # the scale of this law is a probability of success
        scale = 1 / -np.log1p(-np.clip(scale, 0.0, 1 - 1e-15))
    if np.isnan(scale).any():
        losses.unknown.append(name)
        return math.nan
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.atleast_1d(
            call.moves / scale
            if scale.ndim == 0 or scale.shape == call.moves.shape
            else call.moves / scale.min()
        )
    total = 0.0
    values, times = np.unique(np.round(ratios[ratios > 0], _DIGITS), return_counts=True)
    for ratio, n in zip(values.tolist(), times.tolist(), strict=True):
        losses.epsilons["geometric" if law == "geometric" else "laplace", ratio] += n
        total += ratio * n
    return total


def _selection_law(law: str, call: Call) -> LossLaw | None:
    """Return the loss law of a draw among finitely many outcomes, from the call's inputs on both
    sides; None if the inputs do not fit.
    """
    first, second = call.inputs if call.inputs is not None else (None, None)
    if (
        not isinstance(first, np.ndarray)
        or not isinstance(second, np.ndarray)
        or first.shape != second.shape
        or first.size == 0
    ):
        return None
    try:
        if law == "choice":
            sides = [side / side.sum() for side in (first, second)]
        elif law == "binomial":
            if first.size != 1:
                return None
            count = np.arange(int(call.scale) + 1 if not np.any(np.isnan(call.scale)) else 2)
            from scipy.stats import binom  # half a second, and few audits need it

            sides = [binom.pmf(count, count[-1], float(side[0])) for side in (first, second)]
        else:
            scale = float(np.ravel(call.scale)[0])
            if not scale > 0:
                return None
            probabilities = softmax if law == "exponential_mechanism" else permute_and_flip
            sides = [probabilities(side / scale) for side in (first, second)]
        return finite(*sides)
    except (ValueError, FloatingPointError):
        return None


def permute_and_flip(utilities: FloatArray) -> FloatArray:
    """Return the probabilities of permute-and-flip: P(i) = p_i times the integral over t in [0, 1]
    of prod_{j != i} (1 - t p_j).

    Candidates are visited in a random order; t is the place of candidate i in the order (McKenna
    and Sheldon 2020).
    """
    coins = np.exp(utilities - utilities.max())
    nodes, weights = np.polynomial.legendre.leggauss(max(8, len(coins) // 2 + 1))
    t = 0.5 * (nodes + 1)
    found = np.empty(len(coins))
    for i in range(len(coins)):
        others = np.delete(coins, i)
        found[i] = (
            coins[i] * 0.5 * float(weights @ np.prod(1 - np.multiply.outer(t, others), axis=1))
        )
    return found


def distance(moves: FloatArray, norm: str) -> float:
    """Return the norm of the changes of an input's entries: ``l1``, ``l2`` or ``linf``."""
    if moves.size == 0:
        return 0.0
    return float(
        moves.sum() if norm == "l1" else np.sqrt((moves**2).sum()) if norm == "l2" else moves.max()
    )


def together(distances: Iterable[float], norm: str) -> float:
    """Return the norm of the distances of several calls together; NaN if no distance is known."""
    values = np.array([d for d in distances if not math.isnan(d)])
    return distance(values, norm) if values.size else math.nan
