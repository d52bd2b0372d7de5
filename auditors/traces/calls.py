"""Calls of one trace as columns: distances of the inputs, declared sensitivities and budgets, and
privacy losses, which compose.

The law of a call's loss follows from the distance of the call's inputs and from its scale. The loss
belongs to one pair and one trace. The loss is exact where the inputs of a call are a function of
the data and of earlier noise, which both runs share. The loss is not a bound over other pairs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
from scipy.special import softmax

from dpwitness.auditors.density.composition import compose
from dpwitness.auditors.density.known_laws import (
    discrete_laplace,
    finite,
    gaussian,
    laplace,
    parameter_of,
)
from dpwitness.auditors.statistics.loss_law import EnclosedLaw, LossLaw
from dpwitness.auditors.traces.evidence import Finding, TracedCall
from dpwitness.core.claims import GDP, Claim
from dpwitness.core.protocols import FloatArray
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
    "exponential_mechanism": "linf",
    "permute_and_flip": "linf",
}
_MAX_GROUPS = 48  # largest number of different laws that are composed
_DIGITS = 9  # digits to which equal losses agree
# columns of a table of calls that describe a primitive, and not a call
_OF_PRIMITIVES = ("names", "laws", "norms", "sources", "samplings")


def distance(moves: FloatArray, norm: str) -> float:
    """Return the norm of the changes of an input's entries: ``l1``, ``l2`` or ``linf``."""
    if moves.size == 0:
        return 0.0
    if norm == "l2":
        return float(np.sqrt((moves**2).sum()))
    return float(moves.sum() if norm == "l1" else moves.max())


def decay_length(law: str, scale: Any) -> FloatArray:
    """Return the distance over which the density of a law falls by a factor e, from the scale that
    its primitive receives: for one-sided geometric noise, a probability of success.
    """
    found: FloatArray = np.asarray(scale, dtype=float)
    if law != "one_sided_geometric":
        return found
    return np.asarray(1 / -np.log1p(-np.clip(found, 0.0, 1 - 1e-15)))


@dataclass(frozen=True, eq=False)
class Call:
    """One call of a primitive in a recording, and the same call in its replay."""

    index: int
    name: str  # dotted name of the primitive
    law: str
    source: bool  # whether the primitive draws from a generator, and is not a mechanism
    norm: str
    sampling: str  # kind of sampling that an accountant assumes
    where: str  # file and line of the call
    scale: Any  # scale of the noise that is drawn
    row: Json  # columns of `recording.calls.table`; numbers are NaN where there are none
    # shift of noise drawn without the data that gives the same output
    moved: FloatArray | None = None

    @property
    def size(self) -> int:
        """Number of numbers that the call draws."""
        return int(self.row["size"])

    @cached_property
    def drawn(self) -> FloatArray | None:
        """Numbers that the call draws, if they are recorded."""
        found = self.row["drawn"]
        return None if found is None else np.atleast_1d(np.asarray(found, dtype=float))

    @cached_property
    def moves(self) -> FloatArray:
        """Change of each entry of the input, or of the noise where it is drawn separately."""
        if self.moved is not None:
            return np.abs(self.moved)
        if self.row["moves"] is not None:
            return np.atleast_1d(np.asarray(self.row["moves"], dtype=float))
        return np.array([] if math.isnan(self.row["linf"]) else [self.row["linf"]])

    @cached_property
    def distance(self) -> float:
        """Norm of `moves`."""
        return distance(self.moves, self.norm)

    @property
    def free(self) -> bool:
        """Whether the call draws noise from arguments without the data; the code adds this noise to
        a value later.
        """
        alone = self.source or math.isnan(self.row["linf"])
        moves = self.row["linf"] > 0 or self.row["alone"]
        return self.law in LOCATION_LAWS and alone and not moves

    def declared(self, key: str) -> float:
        """Return the largest sensitivity, epsilon or delta that the call declares."""
        return float(np.max(self.row[key]))

    def noise_scales(self) -> FloatArray:
        """Return the scale of each number that the call draws; 1 if the scale is unknown."""
        scale = np.atleast_1d(decay_length(self.law, self.scale))
        return np.where(np.isfinite(scale) & (scale > 0), scale, 1.0)


@dataclass(frozen=True, slots=True)
class Losses:
    """Privacy losses of calls, collected by the law of their noise."""

    # (law, distance over scale) -> times
    epsilons: Counter[tuple[str, float]] = field(default_factory=Counter)
    # sum of squared distances of normal noise, in units of its standard deviation
    squares: float = 0.0
    laws: tuple[LossLaw, ...] = ()  # laws with finitely many outcomes
    # (epsilon, delta) of mechanisms with no other information
    bounded: tuple[tuple[float, float], ...] = ()
    unknown: tuple[str, ...] = ()  # names of calls

    @classmethod
    def together(cls, parts: Sequence[Losses]) -> Losses:
        """Return the losses of several calls."""
        epsilons: Counter[tuple[str, float]] = Counter()
        for part in parts:
            epsilons.update(part.epsilons)
        laws, bounded, unknown = (
            tuple(each for part in parts for each in getattr(part, name))
            for name in ("laws", "bounded", "unknown")
        )
        return cls(epsilons, sum(part.squares for part in parts), laws, bounded, unknown)

    def pure(self) -> float:
        """Return the largest composed loss, the epsilon at delta = 0. NaN if a law is unknown."""
        if self.unknown:
            return math.nan
        if self.squares or any(delta for _, delta in self.bounded):
            return math.inf
        certain = sum(abs(max(law.supremum, law.swapped().supremum)) for law in self.laws)
        counted = sum(e * n for (_, e), n in self.epsilons.items())
        return float(counted + certain + sum(e for e, _ in self.bounded))

    def parameter(self, claim: Claim) -> float:
        """Return the claim's parameter to which the losses compose, at the claim's delta. NaN if a
        law is unknown.
        """
        if self.unknown or claim.is_pure:
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
        if not laws:
            return 0.0
        known = claim.gaussian_parameter(self.squares) if len(laws) == 1 and self.squares else None
        if known is not None:
            return known
        parts = [(EnclosedLaw(law, law, "closed form", "exact"), n) for law, n in laws]
        return parameter_of(claim, compose(parts).lower)

    def _grouped(self) -> Counter[tuple[str, float]]:
        """Return the epsilons in at most `_MAX_GROUPS` groups, each rounded down to a law with a
        smaller loss.
        """
        if len(self.epsilons) <= _MAX_GROUPS:
            return self.epsilons
        levels = np.quantile([e for _, e in self.epsilons], np.linspace(0, 1, _MAX_GROUPS))
        found: Counter[tuple[str, float]] = Counter()
        for (_, e), n in self.epsilons.items():
            level = max(int(np.searchsorted(levels, e, side="right")) - 1, 0)
            found["laplace", float(levels[level])] += n
        return found


def losses_of(call: Call) -> Losses:
    """Return the privacy losses that the noise of one call leaves between the inputs on the two
    datasets.
    """
    same_input = not call.row["alone"] and call.row["inputs"] is None and not call.distance > 0
    return Losses() if same_input else _LOSSES.get(call.law, _declared_losses)(call)


def _normal_losses(call: Call) -> Losses:
    if not np.all(call.scale > 0):
        return Losses(squares=math.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        square = float(np.sum((call.moves / call.scale) ** 2))
    return Losses(unknown=(call.name,)) if math.isnan(square) else Losses(squares=square)


def _laplace_losses(call: Call) -> Losses:
    scale = decay_length(call.law, call.scale)
    if np.isnan(scale).any():
        return Losses(unknown=(call.name,))
    each = scale if scale.ndim == 0 or scale.shape == call.moves.shape else scale.min()
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.round(call.moves / each, _DIGITS)
    values, times = np.unique(ratios[ratios > 0], return_counts=True)
    kind = "geometric" if call.law == "geometric" else "laplace"
    keys = [(kind, value) for value in values.tolist()]
    return Losses(Counter(dict(zip(keys, times.tolist(), strict=True))))


def _selection_losses(call: Call) -> Losses:
    try:
        return Losses(laws=(finite(*_probabilities(call)),))
    except (ValueError, FloatingPointError):  # the inputs do not fit the law
        return Losses(unknown=(call.name,))


def _declared_losses(call: Call) -> Losses:
    """Return the losses if only an epsilon for a distance is declared, which is charged in
    proportion to the distance.
    """
    epsilon, delta, sensitivity = map(call.declared, ("epsilon", "delta", "sensitivity"))
    if math.isnan(epsilon):
        return Losses(unknown=(call.name,))
    ratio = call.distance / sensitivity if sensitivity > 0 and call.distance > 0 else 1.0
    steps = math.ceil(ratio - 1e-9) if 1 < ratio < math.inf else ratio
    return Losses(bounded=((epsilon * steps, min(delta * steps, 1.0) if delta > 0 else 0.0),))


_LOSSES: dict[str, Callable[[Call], Losses]] = {
    **dict.fromkeys(
        ("uniform", "noise", "permutation", "poisson_sample", "spend"), lambda call: Losses()
    ),
    **dict.fromkeys(("gaussian", "discrete_gaussian"), _normal_losses),
    **dict.fromkeys(
        ("laplace", "geometric", "exponential", "one_sided_geometric"), _laplace_losses
    ),
    **dict.fromkeys(
        ("choice", "binomial", "exponential_mechanism", "permute_and_flip"), _selection_losses
    ),
}


def _probabilities(call: Call) -> list[FloatArray]:
    """Return the probabilities of finitely many outcomes on both sides, from the call's inputs.

    Raises ValueError if the inputs do not fit the law.
    """
    sides = [np.asarray(side, dtype=float) for side in call.row["inputs"] or ()]
    if len(sides) != 2 or sides[0].shape != sides[1].shape or not sides[0].size:
        raise ValueError("the inputs are not two arrays of one shape")
    if call.law == "choice":
        return [side / side.sum() for side in sides]
    if call.law == "binomial":
        from scipy.stats import binom  # half a second, and few audits need it

        trials = int(call.row["size"])
        return [binom.pmf(np.arange(trials + 1), trials, side.item()) for side in sides]
    scale = float(np.ravel(call.scale)[0])
    if not scale > 0:
        raise ValueError("the scale is not positive")
    softened = softmax if call.law == "exponential_mechanism" else permute_and_flip
    return [softened(side / scale) for side in sides]


def permute_and_flip(utilities: FloatArray) -> FloatArray:
    """Return the probabilities of permute-and-flip: P(i) = p_i times the integral over t in [0, 1]
    of prod_{j != i} (1 - t p_j).

    Candidates are visited in a random order; t is the place of candidate i in the order (McKenna
    and Sheldon 2020).
    """
    coins = np.exp(utilities - utilities.max())
    nodes, weights = np.polynomial.legendre.leggauss(max(8, len(coins) // 2 + 1))
    factors = 1 - np.multiply.outer(0.5 * (nodes + 1), coins)
    others = [np.prod(np.delete(factors, i, axis=1), axis=1) for i in range(len(coins))]
    return np.asarray(coins * 0.5 * (np.array(others) @ weights))


@dataclass(frozen=True, eq=False)
class CallTable:
    """Calls of one recording and its replay, in order."""

    calls: tuple[Call, ...]

    @classmethod
    def of(cls, table: Json, scales: Mapping[tuple[str, str], float] | None = None) -> CallTable:
        """Return the calls of a table that `RecordingSession.replay` returns.

        `scales` are the scales used inside primitives, by name and line, if not as declared.
        """
        columns = {key: column for key, column in table.items() if key not in _OF_PRIMITIVES}
        calls = []
        for i, values in enumerate(zip(*columns.values(), strict=True)):
            row = dict(zip(columns, values, strict=True))
            name, law, norm, source, sampling = (
                table[key][row["primitive"]]
                for key in ("names", "laws", "norms", "sources", "samplings")
            )
            where = f"{row['file']}:{int(row['line'])}" if row["file"] else ""
            scale = (scales or {}).get((name, where), row["scale"])
            norm = norm or NORM.get(law, "l1")
            calls.append(Call(i, name, law, bool(source), norm, sampling, where, scale, row))
        return cls(tuple(calls))

    def __iter__(self) -> Iterator[Call]:
        return iter(self.calls)

    def shifted(self, moved: Mapping[int, FloatArray]) -> CallTable:
        """Return the calls with shifts of the noise by index, in place of other shifts."""
        return CallTable(tuple(replace(call, moved=moved.get(call.index)) for call in self))

    @property
    def moved(self) -> dict[int, FloatArray]:
        """Shifts of noise drawn without the data that give the same output, by index."""
        return {call.index: call.moved for call in self if call.moved is not None}

    @property
    def plain(self) -> bool:
        """Whether all randomness comes from the draws of generators.

        Then the code may use the draws in any way that gives the right law.
        """
        return all(call.source or call.law == "spend" for call in self)

    @property
    def loose(self) -> bool:
        """Whether the output may depend on data and noise together in ways that no input of a call
        shows.

        This is the case if noise is drawn without the data, or if no mechanism is called and other
        draws are made without the data.
        """
        kinds = [call for call in self.kinds() if call.law != "spend"]
        without_data = any(math.isnan(call.row["linf"]) for call in kinds)
        alone = without_data and all(call.source for call in kinds)
        return alone or any(call.free for call in self)

    def kinds(self) -> list[Call]:
        """Return the first call of each primitive."""
        found: dict[str, Call] = {}
        for call in self:
            found.setdefault(call.name, call)
        return list(found.values())

    def subsampled(self, records: int | None) -> bool:
        """Return whether records are sampled. The computed loss is then the loss of one subsample,
        without amplification.
        """
        return any(
            call.law in ("permutation", "poisson_sample")
            or (call.law == "choice" and math.isnan(call.row["linf"]))
            or (call.law in ("uniform", "binomial") and call.source and call.size == records != 1)
            for call in self
        )

    @cached_property
    def losses(self) -> list[Losses]:
        """Losses of each call."""
        return [losses_of(call) for call in self]

    def charged(self) -> float:
        """Return the sum of the epsilons that were charged to accountants; NaN if there
        were none.
        """
        charges = [call.row["epsilon"] for call in self if call.law == "spend"]
        known = [epsilon for epsilon in charges if not math.isnan(epsilon)]
        return float(sum(known)) if known else math.nan

    def account_faults(self) -> Iterator[str]:
        """Yield descriptions of assumptions of an accountant that the calls break."""
        spends = [call for call in self if call.law == "spend"]
        poisson = any(call.sampling == "poisson" for call in self.kinds())
        permuted = any(call.law == "permutation" for call in self)
        if poisson and permuted and any(call.row["rate"] < 1 for call in spends):
            yield (
                "the accountant assumes that each step draws every record by its own coin; a "
                "permutation is drawn instead"
            )
        noisy = sum(call.row["noise"] > 0 for call in spends)
        drawn = sum(call.law == "gaussian" and not call.source for call in self)
        if noisy and 0 < drawn != noisy:
            yield f"the accountant received {noisy} noisy steps, but noise was drawn {drawn} times"

    def summary(self) -> tuple[TracedCall, ...]:
        """Return one row per primitive and line, in the order of the first calls."""
        groups: dict[tuple[str, str], list[Call]] = {}
        for call in self:
            groups.setdefault((call.name, call.where), []).append(call)
        return tuple(map(self._summarized, groups.values()))

    def _summarized(self, calls: list[Call]) -> TracedCall:
        """Return the row of calls of one primitive from one line."""
        first = calls[0]
        known = np.array([call.distance for call in calls if call.moves.size])
        declared = np.array([call.declared("sensitivity") for call in calls])
        furthest = max(calls, key=lambda call: np.nan_to_num(call.distance))
        scales = [float(np.min(call.scale)) for call in calls]
        return TracedCall(
            first.name,
            first.law,
            first.where,
            len(calls),
            first.norm,
            float(known.max()) if known.size else math.nan,
            distance(known, first.norm) if known.size else math.nan,
            float(np.fmax.reduce(declared)),
            min(scales) if first.law in LOCATION_LAWS else math.nan,
            float(sum(self.losses[call.index].pure() for call in calls)),
            str(furthest.row["text"]),
            any(call.moved is not None for call in calls),
        )

    def findings(self) -> Iterator[Finding]:
        """Yield findings of single calls: inputs that move too far, noise that is too small, and
        shared noise.
        """
        reported: set[tuple[str, str, str]] = set()
        declaring = (call for call in self if not math.isnan(call.declared("sensitivity")))
        # largest change of input first
        for call in sorted(declaring, key=lambda call: -np.nan_to_num(call.row["linf"])):
            for kind, message in _findings_of(call):
                key = kind, call.name, call.where
                if key not in reported:
                    reported.add(key)
                    yield Finding(kind, f"{call.name}: {message}", call.where)


def _findings_of(call: Call) -> Iterator[tuple[str, str]]:
    """Yield kind and message of each finding of one call."""
    epsilon, delta, sensitivity = map(call.declared, ("epsilon", "delta", "sensitivity"))
    # the input moves by more than the declared sensitivity
    entries = {"l1": call.moves.size, "l2": math.sqrt(call.moves.size)}.get(call.norm, 1.0)
    most = sensitivity * (1 + 1e-9) + entries * float(call.row["rounding"])
    if call.moves.size and call.distance > most:
        yield (
            "SENSITIVITY",
            f"input moves by {call.distance:.6g} ({call.norm}), declared {sensitivity:.6g}",
        )
    if call.law not in _ADDITIVE:
        return
    declared_scale, scale = float(np.min(call.row["scale"])), float(np.min(call.scale))
    if scale < declared_scale * (1 - 1e-6):
        yield "NOISE", f"noise of scale {scale:.6g} is drawn, {declared_scale:.6g} is declared"
    elif not math.isnan(epsilon + scale) and sensitivity > 0:
        need = _missing_noise(call.law, scale, sensitivity, epsilon, delta)
        spent = f"epsilon {epsilon:.6g}" + (f" and delta {delta:.3g}" if delta > 0 else "")
        if need is not None:
            yield "NOISE", f"scale {scale:.6g} for sensitivity {sensitivity:.6g}, {spent}{need}"
    # differences of numbers that share a draw have no noise
    inner = call.row["inner"]
    if inner is not None and inner[2] < inner[3]:
        yield ("NOISE", f"{int(inner[2])} draw for {int(inner[3])} numbers: they share their noise")


def _missing_noise(
    law: str, scale: float, sensitivity: float, epsilon: float, delta: float
) -> str | None:
    """Return None if the scale is enough for the declared sensitivity and budget, otherwise the
    needed scale in words where it is known.
    """
    if law in ("laplace", "geometric"):
        spent = epsilon - (math.log1p(-delta) if 0 < delta < 1 else 0.0)
        needed = sensitivity / spent if spent > 0 else math.inf
        return f", which need {needed:.6g}" if scale < needed * (1 - 1e-6) else None
    if not delta > 0:
        return None
    enough = scale > 0 and float(GDP(sensitivity / scale).delta(epsilon)) <= delta * (1 + 1e-3)
    return None if enough else ""


def inner_scales(tables: Sequence[CallTable]) -> dict[tuple[str, str], float]:
    """Return the scale of the noise inside a call, by library and primitive (a mechanism of a
    library, for instance), where all recordings agree on this scale and it differs from the
    declared one.
    """
    seen: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for call in chain.from_iterable(tables):
        inner, declared = call.row["inner"], call.row["scale"]
        if inner is not None and call.law in _ADDITIVE and not math.isnan(inner[1]):
            same = inner[0] == call.law and isinstance(declared, float) and declared > 0
            ratio = inner[1] / declared if same else math.nan
            seen.setdefault((call.name, call.where), []).append((float(inner[1]), ratio))
    found = {}
    for key, values in seen.items():
        ratios = np.array([ratio for _, ratio in values])
        agree = len(values) >= 3 and np.ptp(ratios) <= 1e-6 * ratios.max()
        if agree and abs(ratios[0] - 1) > 1e-6:
            found[key] = min(drawn for drawn, _ in values)
    return found


def record_count(dataset: Any) -> int | None:
    """Return the number of records of a dataset, or None if the dataset is not a sequence of
    records.
    """
    unordered = isinstance(dataset, Mapping | str | bytes) or not hasattr(dataset, "__len__")
    return None if unordered else len(dataset)
