"""Labelled vectors in a ball or a cube: extremes, opposites, one against none, and crowds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import Generator

from dpwitness.mechanisms.domains.base import Domain, Draws, Shape
from dpwitness.mechanisms.domains.fields import LONGEST, items, labels_of, sized
from dpwitness.mechanisms.domains.patterns import CHANGES, DIGITS, NAMED_LABELS, PLACES, only_pairs, ranked, rounded
from dpwitness.mechanisms.terms.datasets import LabelledVectors
from dpwitness.mechanisms.terms.pairs import Pair
from dpwitness.mechanisms.terms.protocol import FloatArray
from dpwitness.mechanisms.terms.validation import InvalidArgument, require

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy

Record = tuple[FloatArray, float]
Counted = tuple[FloatArray, float, int]

_DISTINCT = 16  # records of a drawn crowd that differ


@dataclass(frozen=True, slots=True)
class LabelledBall(Domain):
    """`LabelledVectors` of `size` records (multiplicities counted): ``|x| <= radius`` in `dimension` dimensions, y in `labels`.

    `norm` says which ``|x|``: ``l2``, or ``linf`` for the largest entry. Under ``add-remove`` any number of records up to
    `size`, at least one.
    """

    dimension: int
    size: int
    labels: tuple[float, ...] = (-1, 1)
    radius: float = 1.0
    relation: str = "replace-one"
    norm: str = "l2"

    def __post_init__(self) -> None:
        require(self).integer("dimension", most=LONGEST).integer("size", most=2**53).positive("radius")
        require(self).one_of("relation", ["replace-one", "add-remove"]).one_of("norm", ["l2", "linf"])
        labels_of(self.labels, "LabelledBall")
        object.__setattr__(self, "labels", tuple(items("labels", self.labels, "LabelledBall")))
        if not self.labels:
            raise InvalidArgument("LabelledBall: labels must name at least one value, got ()")
        if self.relation == "add-remove" and self.size < 2:
            raise InvalidArgument(f"LabelledBall: domain must have neighbours, got size {self.size}, whose one record cannot be left out")

    def length(self, x: FloatArray) -> FloatArray:
        """|x| of each row, as floats add it up."""
        largest = np.abs(x).max(axis=-1)
        if self.norm == "linf":
            return np.asarray(largest)
        scale = np.where(largest > 0, largest, 1.0)  # so that no square overflows or vanishes
        return np.asarray(scale * np.linalg.norm(x / scale[..., None], axis=-1))

    def pulled(self, x: FloatArray) -> FloatArray:
        """`x`, or the point below it on the boundary if it lies outside: |x| as floats add it up is at most the radius."""
        out = np.asarray(x, dtype=np.float64)
        largest = float(np.abs(out).max())
        if self.length(out) > self.radius:
            out = out / largest * (self.radius / (float(self.length(out)) / largest))
        shrunk = 2.0**-53
        while self.length(out) > self.radius or (self.norm == "l2" and self._beyond(out)):
            out, shrunk = out * (1 - shrunk), 2 * shrunk
        return out

    def _beyond(self, x: FloatArray) -> bool:
        """Whether some other order of adding up the squares gives more than the radius; where they overflow, none is asked."""
        with np.errstate(over="ignore", under="ignore"):
            sizes = float(np.sqrt(x @ x)), float(np.sqrt(np.sum(x * x))), math.hypot(*x.tolist())
        return any(self.radius < size < math.inf for size in sizes)

    def contains(self, dataset: Any) -> bool:
        """LabelledVectors of as many records as allowed, in the ball up to the rounding of |x|, with labels of the domain."""
        if not isinstance(dataset, LabelledVectors) or dataset.dimension != self.dimension:
            return False
        edge = self.radius * (1 + (self.dimension + 2) * 2.0**-52 if self.norm == "l2" else 1)
        known = set(map(float, self.labels))
        return (
            sized(dataset.n, self.size, self.relation)
            and bool(np.all(self.length(dataset.x) <= edge))
            and all(label in known for label in dataset.y.tolist())
        )

    def catalogue(self) -> Iterable[Pair | None]:
        """Changed records from the corners of the domain, among common records that say nothing, repeat them, oppose them or balance."""
        crowds, changes = list(_crowds(self)), list(_changes(self))
        found = []
        for rank in range(len(crowds) + len(changes) - 1):
            for turn, (common_name, common), (why, first, second) in ranked(crowds, changes, rank):
                at, _ = PLACES[turn]
                found.append(build_labelled(self, first, second, common, f"{why}, {at}, {common_name}", at))
        return found

    def draws(self, rng: Generator) -> Draws[LabelledBall]:
        return _LabelledDrawn(self, rng)

    def shape(self, rng: Generator, turn: int) -> Shape:
        d, others = self.dimension, self.size - 1
        distinct = min((1, 2, 0, 3)[turn % 4], others)
        changed = 2 if self.relation == "replace-one" else 1
        width = d + 1
        labels = [float(v) for v in rng.choice(np.array(self.labels, dtype=float), changed + distinct)]
        if turn % 2 == 0 and len(self.labels) > 1:  # every other start turns the label over, where slopes oppose most
            labels[:changed] = [max(self.labels), min(self.labels)][:changed]
        top = np.log10(max(others, 1))
        at, _ = PLACES[turn // 4 % 3]

        def decode(z: FloatArray) -> Pair | None:
            records = [(within_ball(z[i * width : (i + 1) * width], self), labels[i]) for i in range(changed + distinct)]
            exponents = np.clip(top / 2 + top * z[(changed + distinct) * width :] / 3, 0.0, top)
            counts = np.floor(10.0**exponents)
            if counts.sum() > others:
                counts = np.floor(counts * (others / counts.sum()))
            common = [(x, y, int(c)) for (x, y), c in zip(records[changed:], counts, strict=True) if c >= 1]
            return build_labelled(self, records[0], records[changed - 1], common, "search", at)

        return Shape((changed + distinct) * width + distinct, decode)

    def lattice(self) -> SearchStrategy[Pair]:
        from hypothesis import strategies as st

        d, others = self.dimension, self.size - 1
        labels = st.sampled_from(sorted(self.labels, key=lambda y: (abs(y), -y)))
        entries = st.lists(st.integers(-4, 4), min_size=d, max_size=d)

        def point(quarters: list[int]) -> FloatArray:
            return self.pulled(self.radius * (np.array(quarters, dtype=float) / 4))

        @st.composite
        def pairs(draw: DrawFn) -> Pair | None:
            first, second = (point(draw(entries)), draw(labels)), (point(draw(entries)), draw(labels))
            common, left = [], others
            for _ in range(draw(st.integers(0, min(others, 2)))):
                if left < 1:
                    break
                count = min(left, 10 ** draw(st.integers(0, math.floor(math.log10(left)))))
                small = 10.0 ** -draw(st.integers(0, 3))
                common.append((small * point(draw(entries)), draw(labels), count))
                left -= count
            return build_labelled(self, first, second, common, "lattice")

        return only_pairs(pairs())

    def simpler(self, pair: Pair) -> Iterator[Pair]:
        parts = _parts(self, pair)
        if parts is None:
            return
        changed, common = parts

        def build(changed: list[Record], common: list[Counted]) -> Iterator[Pair]:
            found = build_labelled(self, changed[0], changed[-1], common, pair.why)
            return iter(() if found is None else (found,))

        for i in range(len(common)):
            yield from build(changed, common[:i] + common[i + 1 :])
        for i, (x, y, count) in enumerate(common):
            for digits in (1, 2):
                rounder = int(rounded(float(count), digits))
                if rounder != count and rounder >= 1:
                    yield from build(changed, [*common[:i], (x, y, rounder), *common[i + 1 :]])
                    break
            for simple in _rounder(x, self):
                yield from build(changed, [*common[:i], (simple, y, count), *common[i + 1 :]])
        for i, (x, y) in enumerate(changed):
            for simple in _rounder(x, self):
                yield from build([*changed[:i], (simple, y), *changed[i + 1 :]], common)


def padding(domain: LabelledBall) -> Record:
    """The record that says least: x = 0 with the smallest label in size."""
    return np.zeros(domain.dimension), min(domain.labels, key=lambda label: (abs(label), -label))


def build_labelled(domain: LabelledBall, first: Record, second: Record, common: list[Counted], why: str, at: str = "first") -> Pair | None:
    """The pair that differs in one record, filled up to the domain's size with `padding`; under add-remove only one dataset has it.

    It stands `at` one of `PLACES` among the common records as they are stored. None where it is no pair of the domain: records that are too
    many, lie outside, or are equal.
    """
    rest = domain.size - 1 - sum(count for _, _, count in common)
    if rest < 0:
        return None
    rows = [*common, (*padding(domain), rest)] if rest else common
    place = dict(PLACES)[at](len(rows))

    def dataset(extra: list[Counted]) -> LabelledVectors:
        table = [*rows[:place], *extra, *rows[place:]]
        return LabelledVectors([x + 0.0 for x, _, _ in table], [y for _, y, _ in table], [count for _, _, count in table])

    changed = [(*second, 1)] if domain.relation == "replace-one" else []
    return domain.pair(dataset([(*first, 1)]), dataset(changed), why)


def _changes(domain: LabelledBall) -> Iterator[tuple[str, Record, Record]]:
    """Replaced records: opposite, against the origin, turned, shortened; every pair of extreme labels."""
    d, radius = domain.dimension, domain.radius
    low, high = min(domain.labels), max(domain.labels)
    tip, turned = _tip(domain), np.zeros(d)
    turned[-1] = radius
    yield "x against -x", (tip, high), (-tip, high)
    if high > low:
        yield "one label turned over", (tip, high), (tip, low)
        yield "x and the label turned over", (tip, high), (-tip, low)
    yield "one record against none", (tip, high), (0 * tip, high)
    yield "one record against half of it", (tip, high), (0.5 * tip, low)
    if d > 1:
        yield "a corner against another direction", (tip, high), (turned, low)
        if domain.norm == "linf":
            lone = -tip.copy()
            lone[0] = radius
            yield "one entry against the others", (lone, high), (lone, low)
            yield "one entry against the others, turned over", (lone, high), (-lone, high)
    for label in sorted(set(domain.labels) - {low, high})[:NAMED_LABELS]:
        yield f"label {label:g} against the lowest", (tip, label), (tip, low)


def _crowds(domain: LabelledBall) -> Iterator[tuple[str, list[Counted]]]:
    """Common records."""
    others = domain.size - 1
    yield "all others at the origin", []
    if others == 0:
        return
    tip, low, high = _tip(domain), min(domain.labels), max(domain.labels)
    axis = np.zeros(domain.dimension)
    axis[-1] = domain.radius
    yield "all others the same extreme record", [(tip, high, others)]
    if others > 1:
        half = others // 2
        balance = (tip, low) if high > low else (-tip, high)
        yield "all others balanced", [(tip, high, half), (*balance, half)]
        yield "a tenth of the others extreme", [(tip, high, math.ceil(others / 10))]
    if domain.dimension > 1:
        yield "all others along another axis", [(axis, high, math.ceil(0.9 * others))]
    yield "all others short", [(tip / max(others, 10), high, others)]


def _tip(domain: LabelledBall) -> FloatArray:
    """An extreme point: on an axis of the ball, a corner of the cube."""
    if domain.norm == "linf":
        return np.full(domain.dimension, domain.radius)
    out = np.zeros(domain.dimension)
    out[0] = domain.radius
    return out


class _LabelledDrawn(Draws[LabelledBall]):
    def drawn(self, turn: int, corners: bool) -> Pair | None:
        domain = self.domain
        rng, others = self.rng, domain.size - 1
        labels = sorted(set(domain.labels))
        change = turn % 4 if len(labels) > 1 else (1, 3)[turn // 2 % 2]
        distinct = min(others, _DISTINCT)
        each, over = divmod(others, max(distinct, 1))
        drawn = np.append(labels[:: max(len(labels) - 1, 1)], rng.choice(labels, distinct))[:distinct]  # the extreme labels among them
        marks = rng.permutation(drawn)
        common = [(self._point(corners), float(y), each + (i < over)) for i, y in enumerate(marks)]
        x, y = self._point(True), float(rng.choice(labels))
        first, second = (x, y), (x, y)
        if change in (0, 2):
            before, after = rng.choice(labels, 2, replace=False).tolist()
            first, second = (x, before), (x, after)
        if change in (1, 2):
            second = (-x, second[1])
        elif change == 3:
            second = (self._point(corners), y)
        others_are = "at random corners" if corners else "from the interior"
        at, _ = PLACES[turn % 3]
        what = "another direction" if change == 3 else CHANGES[change]
        return build_labelled(domain, first, second, common, f"drawn {turn}: {what}, {at} among others {others_are}", at)

    def _point(self, corner: bool) -> FloatArray:
        """A point on the boundary, for the cube a corner; or uniform inside."""
        domain, rng = self.domain, self.rng
        d = domain.dimension
        if domain.norm == "linf":
            return np.asarray(domain.radius * (rng.choice([-1.0, 1.0], d) if corner else rng.uniform(-1.0, 1.0, d)))
        direction = rng.standard_normal(d)
        direction /= np.linalg.norm(direction)
        return domain.pulled(domain.radius * direction * (1.0 if corner else rng.random() ** (1 / d)))


def within_ball(z: FloatArray, domain: LabelledBall) -> FloatArray:
    """d + 1 coordinates to a vector: a direction, and a length whose logarithm the last one moves; positive means on the boundary."""
    length = 10.0 ** (1.5 * min(float(z[-1]), 0.0))
    if domain.norm == "linf":
        return np.asarray(domain.radius * length * np.clip(z[:-1], -1.0, 1.0))
    size = float(np.linalg.norm(z[:-1]))
    return domain.pulled(domain.radius * (length * z[:-1] / size) if size > 0 else 0.0 * z[:-1])


def _parts(domain: LabelledBall, pair: Pair) -> tuple[list[tuple[FloatArray, float]], list[tuple[FloatArray, float, int]]] | None:
    """The changed records and the common ones without padding."""
    gone, new = pair.d0.counts() - pair.d1.counts(), pair.d1.counts() - pair.d0.counts()

    def decoded(key: tuple[bytes, float]) -> tuple[FloatArray, float]:
        return np.frombuffer(key[0]).copy(), key[1]

    if pair.relation == "replace-one" and (len(gone) != 1 or len(new) != 1):
        return None
    if pair.relation == "add-remove" and (len(gone) != 1 or new):
        return None
    changed = [decoded(key) for key in (*gone, *new)]
    blank = padding(domain)
    shared = [(*decoded(key), count) for key, count in (pair.d0.counts() & pair.d1.counts()).items()]
    return changed, [(x, y, count) for x, y, count in shared if np.any(x != blank[0]) or y != blank[1]]


def _rounder(x: FloatArray, domain: LabelledBall) -> Iterator[FloatArray]:
    """The vector with entries dropped or rounded, within the domain."""
    size = float(np.abs(x).max())
    if size == 0:
        return
    for j in np.flatnonzero(x):
        rest = x.copy()
        rest[j] = 0.0
        length = float(domain.length(rest))
        if domain.norm == "l2" and length > 0 and domain.length(x) >= domain.radius * (1 - 1e-9):
            yield domain.pulled(rest * (domain.radius / length))
        yield rest
    magnitude = math.floor(math.log10(size))
    if not -300 < magnitude < 300:  # powers of ten that floats do not have
        return
    for digits in DIGITS:
        scale = 10.0 ** (digits - 1 - magnitude)
        for simple in (np.round(x * scale) / scale, np.trunc(x * scale) / scale):
            if domain.length(simple) <= domain.radius and np.any(simple != x):
                yield simple
        if np.array_equal(np.round(x * scale) / scale, x):
            return
