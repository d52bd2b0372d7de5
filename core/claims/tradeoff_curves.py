"""Claims given by trade-off curves: through points, which may be read from a file, and those that
an accountant computes for DP-SGD.

A curve is determined by its lines: (epsilon_j, delta_j)-DP for all j at once, which is f-DP (Dong,
Roth and Su 2022, Propositions 2.5 and 2.12). A family of curves multiplies every e^epsilon_j by one
`factor`, which is 1 for the claim itself. Each curve of the family is concave, starts at 0 or above
and is symmetric under exchange of the two datasets. The certificate of the other notions is
therefore valid for curves as well.
"""

from __future__ import annotations

import csv
import io
import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dpwitness.core.claims.claim import Claim, FloatArray, Lines, parse_numbers, parse_points
from dpwitness.core.claims.notions import ApproxDP
from dpwitness.core.values.json_reader import parse, read_bytes
from dpwitness.core.values.validation import (
    InvalidArgument,
    import_problem,
    number_from_text,
    require,
    require_integer,
    require_positive,
    require_probability,
    require_type,
    short_repr,
)

_MAX_POINTS = 1000  # most points of a curve
_MAX_BYTES = 2**20  # largest size of a file
_TOLERANCE = 1e-9  # tolerance for rounding errors in points


class Curve(Claim):
    """Claim that is determined by its lines (epsilon_j, delta_j)."""

    symbol: ClassVar[str] = "factor"
    has_tangents: ClassVar[bool] = True
    largest_parameter: ClassVar[float] = math.exp(40.0)
    factor: float

    @abstractmethod
    def lines(self) -> Lines:
        """Return the (epsilon_j, delta_j) of the claim itself, which imply all others, with
        epsilons of at least 0.
        """

    def tangents(self) -> Lines:
        """Return the lines of the claim itself, times its factor, and their mirror images."""
        epsilons, deltas = self.lines()
        steep = epsilons + math.log(self.factor)
        return np.concatenate([steep, -steep[::-1]]), np.concatenate(
            [deltas, 1 - (1 - deltas[::-1]) * np.exp(-steep[::-1])]
        )

    def trivial_parameter(self) -> float:
        q = np.linspace(0.0, 1.0, 513)
        low, high = 0.0, self.parameter
        for _ in range(40):
            middle = 0.5 * (low + high)
            valid = (self.with_parameter(middle).tradeoff(q) >= q - 1e-12).all()
            low, high = (low, middle) if valid else (middle, high)
        return high

    def coarse(self) -> Curve:
        epsilons, deltas = self.lines()
        # lines of a coarse curve
        chosen = np.unique(np.linspace(0, len(epsilons) - 1, 24).astype(int))
        return (
            self
            if len(chosen) == len(epsilons)
            else _FewLines(epsilons[chosen], deltas[chosen], self.factor)
        )

    def tradeoff(self, fpr: ArrayLike) -> FloatArray:
        q = np.asarray(fpr, dtype=float)[..., None]
        epsilons, deltas = self.lines()
        slopes = self.factor * np.exp(epsilons)
        up, down = (
            (slopes * q + deltas).min(axis=-1),
            (1.0 - (1.0 - deltas - q) / slopes).min(axis=-1),
        )
        return np.asarray(np.clip(np.minimum(up, down), 0.0, 1.0))

    def parameter_at(self, fpr: ArrayLike, tpr: ArrayLike) -> FloatArray:
        q, p = (
            a[..., None]
            for a in np.broadcast_arrays(np.asarray(fpr, dtype=float), np.asarray(tpr, dtype=float))
        )
        epsilons, deltas = self.lines()
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.maximum(
                *(
                    np.where(high > deltas, (high - deltas) / low, 0.0)
                    for high, low in ((p, q), (1 - q, 1 - p))
                )
            )
        return np.asarray((ratios * np.exp(-epsilons)).max(axis=-1))

    def delta(self, epsilon: ArrayLike) -> FloatArray:
        """Return the exact delta: the largest gain over e^epsilon q occurs at a corner of the
        curve.
        """
        epsilons, deltas = self.lines()
        up = self.factor * np.exp(epsilons)
        slopes, starts = (
            np.concatenate([up, 1 / up[::-1]]),
            np.concatenate([deltas, 1 - (1 - deltas[::-1]) / up[::-1]]),
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            corners = np.nan_to_num(
                np.diff(starts) / -np.diff(slopes), nan=0.0, posinf=0.0, neginf=0.0
            )
        q = np.concatenate([[0.0], np.clip(corners, 0.0, 1.0), [1.0]])
        growth = np.exp(np.minimum(np.asarray(epsilon, dtype=float), 700.0))[..., None]
        return np.asarray(np.clip((self.tradeoff(q) - growth * q).max(axis=-1), 0.0, 1.0))

    def _grouped(self, size: int) -> TradeoffCurve:
        """Return the curve for groups, composed with itself `size` times: Dong, Roth and Su 2022,
        Theorem 2.14.
        """
        corners = _corners(self)
        if len(corners[0]) * size > _MAX_POINTS:
            corners = _corners(self.coarse())  # the coarse curve is an upper bound
        if len(corners[0]) * size > _MAX_POINTS:
            raise InvalidArgument(
                f"group: size must be at most {_MAX_POINTS // len(corners[0])} for {self}, which "
                f"has {len(corners[0])} points, got {size}"
            )
        found = corners
        for _ in range(size - 1):
            # the curve is invertible up to its first point at height 1
            last = int(np.argmax(found[1] >= 1.0)) + 1
            q = np.union1d(found[0], np.interp(corners[0], found[1][:last], found[0][:last]))
            found = q, np.interp(np.interp(q, *found), *corners)
        return TradeoffCurve(
            found[0],
            np.minimum(1 - found[1], 1 - found[0]),
            name=f"{str(self).partition(':')[2]} of {size}",
        )


def _corners(curve: Curve) -> tuple[FloatArray, FloatArray]:
    """Return the points of a curve between which the curve is straight."""
    epsilons, deltas = curve.lines()
    slopes = np.concatenate([np.exp(epsilons), np.exp(-epsilons[::-1])])
    starts = np.concatenate([deltas, 1 - (1 - deltas[::-1]) * np.exp(-epsilons[::-1])])
    flat = np.append(1.0, slopes[:-1] - slopes[1:])
    q = np.clip(np.append(0.0, np.diff(starts)) / np.where(flat > 0, flat, np.inf), 0.0, 1.0)
    ends = np.clip((1 - starts) / slopes, 0.0, 1.0)  # where each line reaches 1
    q = np.unique(np.concatenate([[0.0, 1.0], q, ends]))
    return q, np.asarray(curve.tradeoff(q))


@dataclass(frozen=True, eq=False)
class _FewLines(Curve):
    """Curve with few lines, for a fast choice among events."""

    epsilons: FloatArray
    deltas: FloatArray
    factor: float = 1.0

    kind: ClassVar[str] = "few"

    def lines(self) -> Lines:
        return self.epsilons, self.deltas


@dataclass(frozen=True, init=False, repr=False)
class TradeoffCurve(Curve):
    """f-DP for a curve through points: at false-positive rate alpha no test has a false-negative
    rate below beta = f(alpha).

    Between points the curve is straight. Points of a smooth curve are joined below it in TPR, which
    is a stronger claim. If no convex curve passes through the points, their lower convex envelope
    is taken. In a plot of TPR against FPR this is the concave hull, because an attacker may choose
    between two tests at random. The neighboring relation is symmetric, so the curve is made
    symmetric as well: if (P, Q) and (Q, P) both satisfy f, they satisfy the larger of f and its
    inverse (Dong, Roth and Su 2022, Proposition 2.4).

    Parameters
    ----------
    alpha, beta : array
        At most 1000 points in [0, 1], from alpha = 0 to alpha = 1. beta never increases and is at
        most 1 - alpha.
    name : str
        Name for reports, such as the name of the file.
    factor : float
        Factor on every e^epsilon_j of the curve. Positive.

    Raises
    ------
    InvalidArgument
        If the points do not form such a curve; the message names the first wrong point.

    Examples
    --------
    >>> import math
    >>> half = 1 / (1 + math.e)
    >>> curve = TradeoffCurve([0, half, 1], [1, half, 0])  # that of pure DP with epsilon = 1
    >>> float(curve.parameter_at(0.2, 0.2 * math.e).round(9)), float(curve.delta(1.0).round(9))
    (1.0, 0.0)
    """

    points: tuple[tuple[float, float], ...]
    name: str = field(compare=False)
    factor: float
    above: int = field(compare=False)  # number of given points above the envelope
    remarks: tuple[str, ...] = field(compare=False)

    form: ClassVar[str] = "fdp:FILE"
    notion: ClassVar[str] = "f-differential privacy: a whole trade-off curve"

    def __init__(
        self, alpha: ArrayLike, beta: ArrayLike, *, name: str = "", factor: float = 1.0
    ) -> None:
        require_type("name", name, str, "be a text", "TradeoffCurve")
        a, b = _checked_points(alpha, beta)
        kept = _envelope(a, b)
        values = {
            "points": tuple(zip(a[kept].tolist(), b[kept].tolist(), strict=True)),
            "name": name or f"{len(kept)} points",
            "factor": require_positive("factor", factor, "TradeoffCurve"),
            "above": int(np.sum(b > np.interp(a, a[kept], b[kept]) + _TOLERANCE)),
        }
        for attribute, value in values.items():
            object.__setattr__(self, attribute, value)
        remarks = []
        if self.above:
            remarks.append(
                f"{self.above} of its {len(a)} points lie above their lower convex envelope, "
                "which is claimed"
            )
        if (b[kept] < 1 - self.tradeoff(a[kept]) - _TOLERANCE).any():
            remarks.append(
                "the claim uses the larger of the curve and its inverse, because the "
                "neighboring relation is symmetric"
            )
        object.__setattr__(self, "remarks", tuple(remarks))

    @classmethod
    def parse(cls, text: str) -> TradeoffCurve:
        """Return the curve of points ``alpha=beta,...``, or of a file."""
        if not text:
            raise ValueError
        return (
            TradeoffCurve(*parse_points(text)) if "=" in text and "," in text else read_curve(text)
        )

    @classmethod
    def recall(cls, text: str, numbers: Sequence[float]) -> TradeoffCurve:
        return TradeoffCurve(numbers[::2], numbers[1::2], name="" if "=" in text else text)

    def for_canaries(self, owner: str) -> TradeoffCurve:
        if self.above:
            reason = f"{self.above} of its points lie above the concave hull of all; give the hull"
            raise InvalidArgument(f"{owner}: claim must be a concave curve, got {self}: {reason}")
        return self

    @property
    def identity(self) -> str:
        """Text with all points: the name of a file does not identify its content."""
        return self.spelled

    @property
    def remark(self) -> str:
        return f"{self}: {'; '.join(self.remarks)}" if self.remarks else ""

    @property
    def numbers(self) -> tuple[float, ...]:
        return tuple(number for point in self.points for number in point)

    def of(self, numbers: Sequence[float]) -> TradeoffCurve:
        return TradeoffCurve(numbers[::2], numbers[1::2], name=self.name)

    def with_parameter(self, value: float) -> TradeoffCurve:
        return TradeoffCurve(*np.array(self.points).T, name=self.name, factor=value)

    def lines(self) -> Lines:
        return _lines(self.points)

    @property
    def spelled(self) -> str:
        return "fdp:" + ",".join(f"{a!r}={b!r}" for a, b in self.points)

    def __str__(self) -> str:
        return f"fdp:{self.name}"

    def __repr__(self) -> str:
        return f"TradeoffCurve({len(self.points)} points, name={self.name!r})"


def _checked_points(alpha: ArrayLike, beta: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return the points sorted by alpha. Raise InvalidArgument if they do not form a trade-off
    curve.
    """
    owner = "TradeoffCurve"
    try:
        a, b = np.asarray(alpha, dtype=float), np.asarray(beta, dtype=float)
    except Exception:  # ragged, too large, or an object that raises on access
        raise InvalidArgument(
            f"{owner}: alpha and beta must be rows of numbers, got {short_repr(alpha)}"
        ) from None
    if a.ndim != 1 or a.shape != b.shape or not 2 <= a.size <= _MAX_POINTS:
        raise InvalidArgument(
            f"{owner}: alpha and beta must be two rows of 2 to {_MAX_POINTS} numbers, got "
            f"shapes {a.shape} and {b.shape}"
        )
    order = np.argsort(a, kind="stable")
    a, b = a[order], b[order]
    for rule, wrong in (
        ("alpha must lie in [0, 1]", ~((a >= 0) & (a <= 1))),
        ("beta must lie in [0, 1]", ~((b >= 0) & (b <= 1))),
        ("alpha must go from 0 to 1", ((a == a[0]) & (a != 0)) | ((a == a[-1]) & (a != 1))),
        ("alpha must contain each rate once", np.append(False, np.diff(a) <= 0)),
        ("beta must not rise", np.append(False, np.diff(b) > 0)),
        ("beta must be at most 1 - alpha", b > 1 - a + _TOLERANCE),
    ):
        if wrong.any():
            i = int(np.argmax(wrong))
            raise InvalidArgument(f"{owner}: {rule}, got beta = {b[i]:g} at alpha = {a[i]:g}")
    return a, np.minimum(b, 1 - a)


def _envelope(a: FloatArray, b: FloatArray) -> list[int]:
    """Return the indices of the corners of the lower convex envelope."""
    kept: list[int] = []
    for i in range(len(a)):
        while len(kept) > 1 and (b[kept[-1]] - b[kept[-2]]) * (a[i] - a[kept[-2]]) >= (
            b[i] - b[kept[-2]]
        ) * (a[kept[-1]] - a[kept[-2]]):
            kept.pop()
        kept.append(i)
    return kept


@lru_cache(maxsize=16)
def _lines(points: tuple[tuple[float, float], ...]) -> Lines:
    """Return the pieces p = s q + d of the TPR curve; one with s < 1 is the line (q + s + d - 1)/s
    of the other order.
    """
    a, b = np.array(points).T
    s = -np.diff(b) / np.diff(a)
    d = 1 - b[:-1] - s * a[:-1]
    s, d = s[s > 0], d[s > 0]
    if not len(s):
        raise InvalidArgument(
            "TradeoffCurve: beta must be positive somewhere, got a curve that allows every test"
        )
    steep = s >= 1
    slopes = np.concatenate([s[steep], 1 / s[~steep]])
    deltas = np.clip(np.concatenate([d[steep], (s[~steep] + d[~steep] - 1) / s[~steep]]), 0.0, 1.0)
    return needed(slopes, deltas)


def needed(slopes: FloatArray, deltas: FloatArray) -> Lines:
    """Return the lines s q + d that are lowest somewhere at q >= 0, the steepest line first."""
    # slope, start, and the q from which on the line is lowest
    kept: list[tuple[float, float, float]] = []
    for s, d in sorted(
        zip(slopes.tolist(), deltas.tolist(), strict=True), key=lambda line: (-line[0], line[1])
    ):
        lowest_from = 0.0
        while kept:
            above, start, above_from = kept[-1]
            lowest_from = (d - start) / (above - s) if above > s else math.inf
            if lowest_from > above_from:
                break
            kept.pop()
            lowest_from = 0.0
        if lowest_from < math.inf:
            kept.append((s, d, lowest_from))
    found = np.array(kept)
    return np.log(found[:, 0]), found[:, 1]


def read_curve(path: str) -> TradeoffCurve:
    """Return the curve of a file: CSV with or without the header ``alpha,beta``; JSON, a list of
    pairs or ``{"alpha", "beta"}``.

    Raise InvalidArgument, with the name of the file, if it cannot be read or its points do not form
    a trade-off curve.
    """
    try:
        content = read_bytes(path, most=_MAX_BYTES)
        alpha, beta = (
            _points_of_json(content) if path.lower().endswith(".json") else _points_of_csv(content)
        )
        return TradeoffCurve(alpha, beta, name=Path(path).name)
    except InvalidArgument as error:
        raise InvalidArgument(f"fdp:{path}: {error}") from None


def _points_of_json(content: bytes) -> tuple[list[float], list[float]]:
    """Return alpha and beta of a JSON file."""
    found = parse(content)
    if not isinstance(found, dict):
        return _two_columns(found)
    alpha, beta = found.get("alpha", []), found.get("beta", [])
    if not all(
        isinstance(side, list) and all(type(number) in (int, float) for number in side)
        for side in (alpha, beta)
    ):
        raise InvalidArgument("must hold lists of numbers, alpha and beta")
    if len(alpha) != len(beta):
        raise InvalidArgument(
            f"must have equally many numbers in alpha and beta, got {len(alpha)} and {len(beta)}"
        )
    return _two_columns(zip(alpha, beta, strict=True))


def _points_of_csv(content: bytes) -> tuple[list[float], list[float]]:
    """Return alpha and beta of a CSV file."""
    try:
        rows = [
            row
            for row in csv.reader(io.StringIO(content.decode("utf-8-sig")))
            if any(map(str.strip, row))
        ]
    except (UnicodeDecodeError, csv.Error):
        raise InvalidArgument("must be text in two columns, alpha and beta") from None
    head = [cell.strip().lower() for cell in rows[0]] if rows else []
    return _two_columns(rows[1:] if head == ["alpha", "beta"] else rows)


def _two_columns(rows: Any) -> tuple[list[float], list[float]]:
    """Return the two columns of rows of two numbers."""
    try:
        pairs = [
            tuple(number_from_text(x.strip()) if isinstance(x, str) else float(x) for x in (a, b))
            for a, b in rows
        ]
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgument(
            "must hold pairs of numbers, alpha and beta, between commas; a header, if any, "
            "alpha,beta"
        ) from None
    if not pairs:
        raise InvalidArgument("must hold pairs of numbers, alpha and beta, got none")
    return [a for a, _ in pairs], [b for _, b in pairs]


_MOST_NOISE = 1e6
_LARGEST_LOSS = 1000.0  # claims with larger losses cannot be refuted by any number of runs


@dataclass(frozen=True)
class DPSGD(Curve):
    """Trade-off curve of DP-SGD with Poisson sampling, from above, by dp-accounting's privacy loss
    distributions.

    The curve is an upper bound, so the claim is never stricter than DP-SGD's. Neighbors add or
    remove one example.

    Parameters
    ----------
    sampling_probability : float
        Probability of an example in each step, in (0, 1].
    noise_multiplier : float
        Standard deviation of the noise divided by the clipping norm. Positive.
    steps : int
        Number of training steps.
    factor : float
        Factor on every e^epsilon_j of the curve; 1 for DP-SGD itself. Positive.

    Raises
    ------
    InvalidArgument
        If a parameter is out of range, the losses are too large for the claim to be refutable, or
        dp-accounting is not installed.

    Examples
    --------
    >>> round(DPSGD(0.01, 1.0, 1000).at(1e-5).epsilon, 2)
    1.83
    """

    sampling_probability: float
    noise_multiplier: float
    steps: int
    factor: float = 1.0

    form: ClassVar[str] = "dpsgd:SAMPLING,NOISE,STEPS[,DELTA]"
    notion: ClassVar[str] = "the privacy of DP-SGD, as dp-accounting computes it"

    def __post_init__(self) -> None:
        require(self).positive("sampling_probability", "noise_multiplier", "factor").integer(
            "steps", most=10**7
        )
        if self.sampling_probability > 1:
            raise InvalidArgument(
                f"DPSGD: sampling_probability must lie in (0, 1], got {self.sampling_probability!r}"
            )
        if self.noise_multiplier > _MOST_NOISE:  # the accountant's squares overflow
            raise InvalidArgument(
                f"DPSGD: noise_multiplier must be at most {_MOST_NOISE:g}, got "
                f"{self.noise_multiplier!r}"
            )
        if _largest_loss(*self.numbers) > _LARGEST_LOSS:
            raise InvalidArgument(
                f"DPSGD: {self} cannot be refuted by runs: its privacy losses exceed "
                f"{_LARGEST_LOSS:g}"
            )

    @property
    def numbers(self) -> tuple[float, ...]:
        return float(self.sampling_probability), float(self.noise_multiplier), float(self.steps)

    @classmethod
    def parse(cls, text: str) -> Claim:
        return DPSGD.of_numbers(parse_numbers(text, 3, 4))

    @staticmethod
    def of_numbers(numbers: Sequence[float]) -> Claim:
        """Return the curve, or its point at a fourth number, delta."""
        sampling, noise, steps, *delta = numbers
        curve = DPSGD(sampling, noise, require_integer("steps", steps, "DPSGD", most=10**7))
        return curve.at(*delta) if delta else curve

    def of(self, numbers: Sequence[float]) -> Claim:
        return DPSGD.of_numbers(numbers)

    def for_canaries(self, owner: str) -> Training:
        return Training(self.sampling_probability, self.noise_multiplier, self.steps)

    def lines(self) -> Lines:
        return _dpsgd_lines(*self.numbers)

    def at(self, delta: float) -> AccountedDP:
        """Return the point (epsilon, delta) of the curve at this delta. Raise InvalidArgument if
        the epsilon is not positive and finite.
        """
        delta = require_probability("delta", delta, "DPSGD")
        epsilon = float(_loss_distribution(*self.numbers).get_epsilon_for_delta(delta))
        if not 0 < epsilon < math.inf:
            raise InvalidArgument(
                f"DPSGD: delta must give {self} a positive and finite epsilon, got delta = "
                f"{delta:g} with epsilon = {epsilon:g}"
            )
        return AccountedDP(epsilon, delta, self)

    def __str__(self) -> str:
        return f"dpsgd:{self.sampling_probability:g},{self.noise_multiplier:g},{self.steps}"


class Training(DPSGD):
    """DP-SGD training within the family of trainings with other noise, on which canaries certify an
    upper bound.
    """

    symbol: ClassVar[str] = "signal"

    @property
    def signal(self) -> float:
        """1 / noise multiplier, which grows with the leak."""
        return 1 / self.noise_multiplier

    def with_parameter(self, value: float) -> Training:
        return Training(self.sampling_probability, 1 / value, self.steps)

    def trivial_parameter(self) -> float:
        return 0.0


@dataclass(frozen=True, init=False, repr=False)
class AccountedDP(ApproxDP):
    """(epsilon, delta)-DP with the accountant's epsilon at this delta."""

    curve: DPSGD

    kind: ClassVar[str] = "dpsgd"

    def __init__(self, epsilon: float, delta: float, curve: DPSGD) -> None:
        ApproxDP.__init__(self, epsilon, delta)
        object.__setattr__(self, "curve", curve)

    @property
    def numbers(self) -> tuple[float, ...]:
        return *self.curve.numbers, self.delta_budget

    @property
    def spelled(self) -> str:
        return f"dpsgd:{','.join(repr(number) for number in self.numbers)}"

    @property
    def remark(self) -> str:
        return (
            f"{self}: dp-accounting computes epsilon = {self.epsilon:.6g} at delta = "
            f"{self.delta_budget:g}"
        )

    def of(self, numbers: Sequence[float]) -> Claim:
        return DPSGD.of_numbers(numbers)

    def __str__(self) -> str:
        return f"{self.curve},{self.delta_budget:g}"


def _largest_loss(sampling: float, noise: float, steps: float) -> float:
    """Estimate the largest privacy loss ever observed, of a step and of all (Dong, Roth and Su
    2022, Corollary 5.4).
    """
    signal = min(1 / noise, 1e6)
    mu = sampling * math.sqrt(steps * math.expm1(min(signal**2, 700.0)))
    return max(0.5 * signal**2 + 10 * signal, 0.5 * mu**2 + 10 * mu)


@lru_cache(maxsize=16)
def _loss_distribution(sampling: float, noise: float, steps: float) -> Any:
    """Return dp-accounting's privacy loss distribution of DP-SGD. Raise InvalidArgument if
    dp-accounting is not installed.
    """
    try:
        from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism
    except ImportError as error:
        why = import_problem("dp_accounting", error, "pip install dp-accounting")
        raise InvalidArgument(f"DPSGD: the claim needs dp-accounting: {why}") from None
    largest = _largest_loss(sampling, noise, steps)
    width = 1e-3 if largest >= 10 else 1e-4
    if steps == 1:  # the errors of the grid grow with the steps, and one step allows a coarse one
        width = min(max(width, largest / 10_000), 1e-3)
    one = from_gaussian_mechanism(
        noise, sampling_prob=sampling, value_discretization_interval=width, use_connect_dots=True
    )
    return one.self_compose(int(steps)) if steps > 1 else one


@lru_cache(maxsize=16)
def _dpsgd_lines(*numbers: float) -> Lines:
    """Return the lines (epsilon_j, delta_j) of DP-SGD's trade-off curve."""
    loss = _loss_distribution(*numbers)
    # 120 lines of the curve: fewer lines only raise it
    epsilons = np.linspace(max(0.01, float(loss.get_epsilon_for_delta(1e-12))), 0.0, 120)
    deltas = np.asarray(loss.get_delta_for_epsilon(epsilons[::-1]), dtype=float)[::-1]
    return needed(np.exp(epsilons), np.clip(deltas, 0.0, 1.0))
