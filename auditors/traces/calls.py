"""Calls of one trace as columns: distances of the inputs, declared sensitivities and budgets, and
privacy losses, which compose.

The law of a call's loss follows from the distance of the call's inputs and from its scale. The loss
belongs to one pair and one trace. The loss is exact where the inputs of a call are a function of
the data and of earlier noise, which both runs share. The loss is not a bound over other pairs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import softmax

from dpwitness.auditors.density.composition import compose
from dpwitness.auditors.density.limit import (
    discrete_laplace,
    finite,
    gaussian,
    laplace,
    parameter_of,
)
from dpwitness.auditors.statistics.loss_law import EnclosedLaw, LossLaw
from dpwitness.auditors.traces.evidence import Finding, TracedCall
from dpwitness.core.claims import GDP, Claim
from dpwitness.core.protocols.mechanism import FloatArray
from dpwitness.core.values.json_reader import Json
from dpwitness.mechanisms.wrappers.recording.primitives import LOCATION_LAWS

_ADDITIVE = ("laplace", "geometric", "gaussian", "discrete_gaussian")


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
        laws: list[tuple[LossLaw, int]] = [(law, 1) for law in self.laws]
        for (law, e), n in self._grouped().items():
            discrete = law == "geometric" and e > 0.3
            laws.append((discrete_laplace(1, epsilon=e) if discrete else laplace(e), n))
        if self.squares:
            laws.append((gaussian(math.sqrt(self.squares)), 1))
        for epsilon, delta in self.bounded:  # the worst law (Kairouz, Oh and Viswanath 2015)
            masses = (1 - delta) * softmax([min(epsilon, 700.0), 0.0])
            laws.append((finite([delta, *masses, 0.0], [0.0, *masses[::-1], delta]), 1))
        parts = [(EnclosedLaw(law, law, "closed form", "exact"), n) for law, n in laws]
        if not parts:
            return 0.0
        known = claim.gaussian_parameter(self.squares) if len(parts) == 1 and self.squares else None
        return parameter_of(claim, compose(parts).lower) if known is None else known

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


def add(losses: Losses, name: str, law: str, call: CallNumbers) -> float:
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
class CallNumbers:
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


def _add_laplace_like(losses: Losses, name: str, law: str, call: CallNumbers) -> float:
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


def _selection_law(law: str, call: CallNumbers) -> LossLaw | None:
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


@dataclass(frozen=True, eq=False)
class CallTable:
    """Columns of the table of calls that `recording.session.Session.replay` returns."""

    table: Json
    # shifts of noise drawn without the data that give the same output
    moved: dict[int, FloatArray] = field(default_factory=dict)
    # scale used inside a primitive, at a line, if not as declared
    drawn_scale: dict[tuple[str, str], float] = field(default_factory=dict)
    _known_calls: dict[int, CallNumbers] = field(default_factory=dict, init=False)

    def __len__(self) -> int:
        return len(self.table["primitive"])

    def name(self, i: int) -> str:
        return str(self.table["names"][self.table["primitive"][i]])

    def law(self, i: int) -> str:
        return str(self.table["laws"][self.table["primitive"][i]])

    def source(self, i: int) -> bool:
        return bool(self.table["sources"][self.table["primitive"][i]])

    def norm(self, i: int) -> str:
        reported = str(self.table["norms"][self.table["primitive"][i]])
        law = self.law(i)
        return (
            reported
            or NORM.get(law)
            or ("linf" if law in ("exponential_mechanism", "permute_and_flip") else "l1")
        )

    def where(self, i: int) -> str:
        file, line = self.table["file"][i], int(self.table["line"][i])
        return f"{file}:{line}" if file else ""

    def output(self, i: int) -> FloatArray | None:
        found = self.table["drawn"][i]
        return None if found is None else np.atleast_1d(np.asarray(found, dtype=float))

    def scale(self, i: int) -> Any:
        """Return the scale of the noise that is actually drawn."""
        return self.drawn_scale.get((self.name(i), self.where(i)), self.table["scale"][i])

    def free(self, i: int) -> bool:
        """Return whether the call draws noise without the data, which the code adds to something
        later.
        """
        alone = self.source(i) or math.isnan(self.table["linf"][i])
        return (
            self.law(i) in LOCATION_LAWS
            and alone
            and not self.table["linf"][i] > 0
            and not self.table["alone"][i]
        )

    def loose(self) -> bool:
        """Return whether the output may depend on data and noise together in ways that no input of
        a call shows.

        This is the case if noise is drawn without the data, or if no mechanism is called and other
        draws are made without the data.
        """
        kinds = [i for i in self.kinds() if self.law(i) != "spend"]
        alone = (
            bool(kinds)
            and all(self.source(i) for i in kinds)
            and any(math.isnan(self.table["linf"][i]) for i in kinds)
        )
        return alone or any(self.free(i) for i in range(len(self)))

    def kinds(self) -> list[int]:
        """Return the index of one call of each primitive."""
        return (
            np.unique(np.asarray(self.table["primitive"], dtype=int), return_index=True)[1].tolist()
            if len(self)
            else []
        )

    def subsampled(self, records: int | None) -> bool:
        """Return whether records are sampled. The computed loss is then the loss of one subsample,
        without amplification.
        """
        for i in range(len(self)):
            law = self.law(i)
            if law in ("permutation", "poisson_sample") or (
                law == "choice" and math.isnan(self.table["linf"][i])
            ):
                return True
            coins = law in ("uniform", "binomial") and self.source(i)
            if coins and records is not None and self.table["size"][i] == records > 1:
                return True
        return False

    def call(self, i: int) -> CallNumbers:
        """Return the numbers of one call, from the table and the shifts of the noise."""
        if i in self._known_calls:
            return self._known_calls[i]
        t, moved, norm = (self.table, self.moved.get(i), self.norm(i))
        if moved is not None:
            moves = np.abs(moved)
        else:
            reported, size = t["moves"][i], t["linf"][i]
            moves = (
                np.atleast_1d(np.asarray(reported, dtype=float))
                if reported is not None
                else np.array([] if math.isnan(size) else [size])
            )
        scale = t["size"][i] if self.law(i) == "binomial" else self.scale(i)
        declared = (t[key][i] for key in ("sensitivity", "epsilon", "delta"))
        sensitivity, epsilon, delta = (
            value if isinstance(value, float) else float(np.max(value)) for value in declared
        )
        description = float(moves[0]) if moves.size == 1 else distance(moves, norm)
        found = CallNumbers(
            moves,
            description,
            scale,
            sensitivity,
            epsilon,
            delta,
            inputs=t["inputs"][i],
            alone=int(t["alone"][i]),
        )
        self._known_calls[i] = found
        return found

    @cached_property
    def losses(self) -> tuple[Losses, list[float]]:
        """Losses of all calls together, and each call's loss at delta = 0."""
        losses, each = Losses(), [0.0] * len(self)
        moving = np.asarray(self.table["linf"]) > 0
        moving |= np.asarray(self.table["alone"]) > 0
        moving |= np.array([v is not None for v in self.table["inputs"]], dtype=bool)
        for i in range(len(self)):
            if moving[i] or i in self.moved:
                each[i] = add(losses, self.name(i), self.law(i), self.call(i))
        return losses, each

    def charged(self) -> float:
        """Return the sum of the epsilons that were charged to accountants; NaN if there
        were none.
        """
        reported = [self.table["epsilon"][i] for i in range(len(self)) if self.law(i) == "spend"]
        known = [epsilon for epsilon in reported if not math.isnan(epsilon)]
        return float(sum(known)) if known else math.nan

    def account_faults(self) -> Iterator[str]:
        """Yield descriptions of assumptions of an accountant that the calls break."""
        kinds = [self.law(i) for i in range(len(self))]
        spends = [i for i, kind in enumerate(kinds) if kind == "spend"]
        poisson = any(s == "poisson" for s in self.table["samplings"])
        if poisson and "permutation" in kinds and any(self.table["rate"][i] < 1 for i in spends):
            yield (
                "the accountant assumes that each step draws every record by its own coin; a "
                "permutation is drawn instead"
            )
        noisy = sum(self.table["noise"][i] > 0 for i in spends)
        drawn = sum(kind == "gaussian" and not self.source(i) for i, kind in enumerate(kinds))
        if noisy and 0 < drawn != noisy:
            yield f"the accountant received {noisy} noisy steps, but noise was drawn {drawn} times"

    def summary(self) -> tuple[TracedCall, ...]:
        """Return one row per primitive and line, in the order of the first calls."""
        groups: dict[tuple[str, str], list[int]] = {}
        for i in range(len(self)):
            groups.setdefault((self.name(i), self.where(i)), []).append(i)
        _, each = self.losses
        rows = []
        for (name, where), members in groups.items():
            first, calls = members[0], [self.call(i) for i in members]
            distances = [c.distance if c.moves.size else math.nan for c in calls]
            furthest = members[int(np.argmax(np.nan_to_num(np.array(distances))))]
            known = [d for d in distances if not math.isnan(d)]
            scales = [
                c.scale if isinstance(c.scale, float) else float(np.min(c.scale)) for c in calls
            ]
            rows.append(
                TracedCall(
                    name,
                    self.law(first),
                    where,
                    len(members),
                    self.norm(first),
                    max(known, default=math.nan),
                    distance(np.array(known), self.norm(first)) if known else math.nan,
                    max(
                        (c.sensitivity for c in calls if not math.isnan(c.sensitivity)),
                        default=math.nan,
                    ),
                    min(scales) if self.law(first) in LOCATION_LAWS else math.nan,
                    float(sum(each[i] for i in members)),
                    str(self.table["text"][furthest]),
                    any(i in self.moved for i in members),
                )
            )
        return tuple(rows)

    def findings(self) -> Iterator[Finding]:
        """Yield findings of single calls: inputs that move too far, noise that is too small, and
        shared noise.
        """
        reported: set[tuple[str, str, str]] = set()
        declared = np.array([float(np.max(v)) for v in self.table["sensitivity"]], dtype=float)
        for i in sorted(  # largest change of input first
            np.flatnonzero(~np.isnan(declared)).tolist(),
            key=lambda i: -float(np.nan_to_num(self.table["linf"][i])),
        ):
            for kind, message in self._findings_of(i):
                key = kind, self.name(i), self.where(i)
                if key not in reported:
                    reported.add(key)
                    yield Finding(kind, f"{self.name(i)}: {message}", self.where(i))

    def _findings_of(self, i: int) -> Iterator[tuple[str, str]]:
        """Yield kind and message of each finding of one call."""
        law, call, inner = self.law(i), self.call(i), self.table["inner"][i]
        # the input moves by more than the declared sensitivity
        moved = {"l1": call.moves.size, "l2": math.sqrt(call.moves.size)}.get(self.norm(i), 1.0)
        most = call.sensitivity * (1 + 1e-9) + moved * float(self.table["rounding"][i])
        if call.moves.size and call.distance > most:
            yield (
                "SENSITIVITY",
                f"input moves by {call.distance:.6g} ({self.norm(i)}), declared "
                f"{call.sensitivity:.6g}",
            )
        if law not in _ADDITIVE:
            return
        # the noise is smaller than declared, or than the declared sensitivity and budget need
        declared_scale, scale = float(np.min(self.table["scale"][i])), float(np.min(call.scale))
        known = not math.isnan(call.epsilon + scale) and call.sensitivity > 0
        budget = f"epsilon {call.epsilon:.6g}" + (
            f" and delta {call.delta:.3g}" if call.delta > 0 else ""
        )
        text = f"scale {scale:.6g} for sensitivity {call.sensitivity:.6g}, {budget}"
        if scale < declared_scale * (1 - 1e-6):
            yield "NOISE", f"noise of scale {scale:.6g} is drawn, {declared_scale:.6g} is declared"
        elif known and law in ("laplace", "geometric"):
            spent = call.epsilon - (math.log1p(-call.delta) if 0 < call.delta < 1 else 0.0)
            needed = call.sensitivity / spent if spent > 0 else math.inf
            if scale < needed * (1 - 1e-6):
                yield "NOISE", f"{text}, which need {needed:.6g}"
        elif known and call.delta > 0:
            law_of_noise = None if scale <= 0 else GDP(call.sensitivity / scale)
            if law_of_noise is None or float(law_of_noise.delta(call.epsilon)) > call.delta * (
                1 + 1e-3
            ):
                yield "NOISE", text
        # differences of numbers that share a draw have no noise
        if inner is not None and inner[2] < inner[3]:
            yield (
                "NOISE",
                f"{int(inner[2])} draw for {int(inner[3])} numbers: they share their noise",
            )


def inner_scales(tables: list[Json]) -> dict[tuple[str, str], float]:
    """Return the scale that primitives use inside, where all recordings agree on the scale and the
    scale differs from the declared one.
    """
    seen: dict[tuple[str, str], list[tuple[float, float, bool]]] = {}
    for calls in map(CallTable, tables):
        for i, inner in enumerate(calls.table["inner"]):
            if inner is not None and calls.law(i) in _ADDITIVE and not math.isnan(inner[1]):
                scale = calls.table["scale"][i]
                same = inner[0] == calls.law(i) and isinstance(scale, float)
                seen.setdefault((calls.name(i), calls.where(i)), []).append(
                    (float(inner[1]), scale if same else math.nan, same)
                )
    found = {}
    for key, values in seen.items():
        ratios = np.array(
            [
                drawn / declared_scale
                for drawn, declared_scale, same in values
                if same and declared_scale > 0
            ]
        )
        if (
            len(ratios) == len(values) >= 3
            and np.ptp(ratios) <= 1e-6 * ratios.max()
            and abs(ratios[0] - 1) > 1e-6
        ):
            found[key] = min(drawn for drawn, _, _ in values)
    return found


def record_count(dataset: Any) -> int | None:
    """Return the number of records of a dataset, or None if the dataset is not a sequence of
    records.
    """
    if (
        isinstance(dataset, Mapping)
        or not hasattr(dataset, "__len__")
        or isinstance(dataset, str | bytes)
    ):
        return None
    return len(dataset)
