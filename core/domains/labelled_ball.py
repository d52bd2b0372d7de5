"""The domain of labeled vectors in a ball or a cube. Its pairs combine extreme, opposite and absent
records with crowds of others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from dpwitness.core.datasets.datasets import LabelledVectors
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.domains.base import (
    CHANGES,
    DIGITS,
    MAX_ENTRIES,
    NAMED_LABELS,
    PLACES,
    Domain,
    SearchSpace,
    chosen,
    items,
    ranked,
    require_labels,
    sized,
)
from dpwitness.core.protocols import FloatArray
from dpwitness.core.values.validation import require, require_rules

Record = tuple[FloatArray, float]
Counted = tuple[FloatArray, float, int]


@dataclass(frozen=True, slots=True)
class LabelledBall(Domain):
    """`LabelledVectors` of `size` records (multiplicities counted): ``|x| <= radius`` in
    `dimension` dimensions, y in `labels`.

    Parameters
    ----------
    dimension : int
        Dimension of x.
    size : int
        Number of records; under ``add-remove`` the largest number, with at least one record.
    labels : tuple of float
        Possible values of y.
    radius : float
        Largest ``|x|``. Positive.
    relation : {"replace-one", "add-remove"}
        Neighboring relation.
    norm : {"l2", "linf"}
        Norm ``|x|``; ``linf`` is the largest absolute entry.

    Raises
    ------
    InvalidArgument
        If a parameter is out of range.
    """

    dimension: int
    size: int
    labels: tuple[float, ...] = (-1, 1)
    radius: float = 1.0
    relation: str = "replace-one"
    norm: str = "l2"

    def __post_init__(self) -> None:
        require(self).integer("dimension", most=MAX_ENTRIES).integer("size", most=2**53).positive(
            "radius"
        )
        require(self).one_of("relation", ["replace-one", "add-remove"]).one_of(
            "norm", ["l2", "linf"]
        )
        require_labels(self.labels, "LabelledBall")
        object.__setattr__(self, "labels", tuple(items("labels", self.labels, "LabelledBall")))
        removable = self.relation != "add-remove" or self.size > 1
        require_rules(
            "LabelledBall",
            (self.labels, "labels must name at least one value", self.labels),
            (removable, "size must be at least 2 under add-remove", self.size),
        )

    def length(self, x: FloatArray) -> FloatArray:
        """Return |x| of each row in floating-point arithmetic."""
        largest = np.abs(x).max(axis=-1)
        if self.norm == "linf":
            return np.asarray(largest)
        # prevents overflow and underflow of the squares
        scale = np.where(largest > 0, largest, 1.0)
        return np.asarray(scale * np.linalg.norm(x / scale[..., None], axis=-1))

    def pulled(self, x: FloatArray) -> FloatArray:
        """Return `x`, or if |x| exceeds the radius its projection onto the boundary, so that |x| in
        floats is at most the radius.
        """
        out = np.asarray(x, dtype=np.float64)
        largest = float(np.abs(out).max())
        if self.length(out) > self.radius:
            out = out / largest * (self.radius / (float(self.length(out)) / largest))
        shrunk = 2.0**-53
        while self.length(out) > self.radius or (self.norm == "l2" and self._exceeds_radius(out)):
            out, shrunk = out * (1 - shrunk), 2 * shrunk
        return out

    def _exceeds_radius(self, x: FloatArray) -> bool:
        """Return whether |x| exceeds the radius in another summation order of the squares; orders
        that overflow are ignored.
        """
        with np.errstate(over="ignore", under="ignore"):
            sizes = float(np.sqrt(x @ x)), float(np.sqrt(np.sum(x * x))), math.hypot(*x.tolist())
        return any(self.radius < size < math.inf for size in sizes)

    def contains(self, dataset: Any) -> bool:
        """Return whether the dataset is a LabelledVectors of an allowed size, in the ball up to
        rounding of |x|, with known labels.
        """
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
        """Yield fixed pairs: changed records at corners of the domain, among common records."""
        crowds, changes = _crowds(self), _changes(self)
        for rank in range(len(crowds) + len(changes) - 1):
            for turn, (common_name, common), (why, first, second) in ranked(crowds, changes, rank):
                at, _ = PLACES[turn]
                yield build_labelled_pair(
                    self, first, second, common, f"{why}, {at}, {common_name}", at=at
                )

    def random_pair(self, rng: Generator, turn: int, corners: bool) -> Pair | None:
        others, labels = self.size - 1, sorted(set(self.labels))
        change = turn % 4 if len(labels) > 1 else (1, 3)[turn // 2 % 2]
        # different records in a drawn crowd
        distinct = min(others, 16)
        share, over = divmod(others, max(distinct, 1))
        # includes the extreme labels
        drawn = np.append(labels[:: max(len(labels) - 1, 1)], rng.choice(labels, distinct))[
            :distinct
        ]
        shuffled = rng.permutation(drawn)
        common = [
            (self._random_point(rng, corners), float(y), share + (i < over))
            for i, y in enumerate(shuffled)
        ]
        x, y = self._random_point(rng, True), float(rng.choice(labels))
        first, second = (x, y), (x, y)
        if change in (0, 2):
            before, after = rng.choice(labels, 2, replace=False).tolist()
            first, second = (x, before), (x, after)
        if change in (1, 2):
            second = (-x, second[1])
        elif change == 3:
            second = (self._random_point(rng, corners), y)
        others_text = "at random corners" if corners else "from the interior"
        at, _ = PLACES[turn % 3]
        what = "another direction" if change == 3 else CHANGES[change]
        return build_labelled_pair(
            self,
            first,
            second,
            common,
            f"drawn {turn}: {what}, {at} among others {others_text}",
            at=at,
        )

    def _random_point(self, rng: Generator, corner: bool) -> FloatArray:
        """Return a random point: on the boundary (a corner of the cube) if `corner`, otherwise
        uniform inside.
        """
        d = self.dimension
        if self.norm == "linf":
            return np.asarray(
                self.radius * (rng.choice([-1.0, 1.0], d) if corner else rng.uniform(-1.0, 1.0, d))
            )
        direction = rng.standard_normal(d)
        direction /= np.linalg.norm(direction)
        return self.pulled(self.radius * direction * (1.0 if corner else rng.random() ** (1 / d)))

    def shape(self, rng: Generator, turn: int) -> SearchSpace:
        """Return coordinates of pairs for the `turn`-th start of a search: the changed records and
        up to three different common records with their multiplicities.
        """
        d, others = self.dimension, self.size - 1
        distinct = min((1, 2, 0, 3)[turn % 4], others)
        changed = 2 if self.relation == "replace-one" else 1
        width = d + 1
        labels = [
            float(v) for v in rng.choice(np.array(self.labels, dtype=float), changed + distinct)
        ]
        # every other start flips the label: extreme labels have the most opposed gradients
        if turn % 2 == 0 and len(self.labels) > 1:
            labels[:changed] = [max(self.labels), min(self.labels)][:changed]
        top = np.log10(max(others, 1))
        at, _ = PLACES[turn // 4 % 3]

        def decode(z: FloatArray) -> Pair | None:
            records = [
                (decode_vector(z[i * width : (i + 1) * width], self), labels[i])
                for i in range(changed + distinct)
            ]
            exponents = np.clip(top / 2 + top * z[(changed + distinct) * width :] / 3, 0.0, top)
            counts = np.floor(10.0**exponents)
            if counts.sum() > others:
                counts = np.floor(counts * (others / counts.sum()))
            common = [
                (x, y, int(c))
                for (x, y), c in zip(records[changed:], counts, strict=True)
                if c >= 1
            ]
            return build_labelled_pair(
                self, records[0], records[changed - 1], common, "search", at=at
            )

        return SearchSpace((changed + distinct) * width + distinct, decode)

    def simplifications(self, pair: Pair) -> Iterator[Pair | None]:
        """Yield pairs without some common record, with rounded multiplicities, or with simpler
        vectors.
        """
        parts = _split_pair(self, pair)
        if parts is None:
            return
        changed, common = parts

        def build(changed: list[Record], common: list[Counted]) -> Pair | None:
            return build_labelled_pair(self, changed[0], changed[-1], common, pair.why)

        for i in range(len(common)):
            yield build(changed, common[:i] + common[i + 1 :])
        for i, (x, y, count) in enumerate(common):
            rounded = (int(float(f"{count:.{digits}g}")) for digits in (1, 2))
            smaller = [(x, y, shorter) for shorter in rounded if shorter != count][:1]
            for simple in (*smaller, *((simple, y, count) for simple in _simpler_vectors(x, self))):
                yield build(changed, [*common[:i], simple, *common[i + 1 :]])
        for i, (x, y) in enumerate(changed):
            for simpler in _simpler_vectors(x, self):
                yield build([*changed[:i], (simpler, y), *changed[i + 1 :]], common)


def padding(domain: LabelledBall) -> Record:
    """Return the neutral record: x = 0 with the label of smallest absolute value."""
    return np.zeros(domain.dimension), min(domain.labels, key=lambda label: (abs(label), -label))


def build_labelled_pair(
    domain: LabelledBall,
    first: Record,
    second: Record,
    common: list[Counted],
    why: str,
    *,
    at: str = "first",
) -> Pair | None:
    """Return the pair that differs in one record, filled up to the domain's size with `padding`.

    Under add-remove only the first dataset has the record. `at` names one of `PLACES`, the position
    of the record among the stored common records. None where the result is not a pair of the
    domain: too many records, records outside, or equal datasets.
    """
    rest = domain.size - 1 - sum(count for _, _, count in common)
    if rest < 0:
        return None
    rows = [*common, (*padding(domain), rest)] if rest else common
    place = dict(PLACES)[at](len(rows))

    def dataset(extra: list[Counted]) -> LabelledVectors:
        table = [*rows[:place], *extra, *rows[place:]]
        return LabelledVectors(
            [x + 0.0 for x, _, _ in table],
            [y for _, y, _ in table],
            [count for _, _, count in table],
        )

    changed = [(*second, 1)] if domain.relation == "replace-one" else []
    return domain.pair(dataset([(*first, 1)]), dataset(changed), why)


def _changes(domain: LabelledBall) -> list[tuple[str, Record, Record]]:
    """Return replaced records: opposite, against the origin, another direction, shortened; every
    pair of extreme labels.
    """
    low, high = min(domain.labels), max(domain.labels)
    extreme, other_direction = _extreme_point(domain), _last_axis(domain)
    mixed = -extreme.copy()
    mixed[0] = domain.radius
    several, flip = domain.dimension > 1, high > low
    cube = several and domain.norm == "linf"
    changes = chosen(  # description, both records
        (True, ("x against -x", (extreme, high), (-extreme, high))),
        (flip, ("one label flipped", (extreme, high), (extreme, low))),
        (flip, ("x and the label flipped", (extreme, high), (-extreme, low))),
        (True, ("one record against none", (extreme, high), (0 * extreme, high))),
        (True, ("one record against half of it", (extreme, high), (0.5 * extreme, low))),
        (several, ("a corner against another direction", (extreme, high), (other_direction, low))),
        (cube, ("one entry against the others", (mixed, high), (mixed, low))),
        (cube, ("one entry against the others, flipped", (mixed, high), (-mixed, high))),
    )
    return changes + [
        (f"label {label:g} against the lowest", (extreme, label), (extreme, low))
        for label in sorted(set(domain.labels) - {low, high})[:NAMED_LABELS]
    ]


def _crowds(domain: LabelledBall) -> list[tuple[str, list[Counted]]]:
    """Return the common records, each list with its description."""
    others = domain.size - 1
    half = others // 2
    extreme, low, high = _extreme_point(domain), min(domain.labels), max(domain.labels)
    balance = (extreme, low) if high > low else (-extreme, high)
    any_, several, other_axis = others > 0, others > 1, others > 0 and domain.dimension > 1
    along_axis: Counted = (_last_axis(domain), high, math.ceil(0.9 * others))
    return chosen(
        (True, ("all others at the origin", [])),
        (any_, ("all others the same extreme record", [(extreme, high, others)])),
        (several, ("all others balanced", [(extreme, high, half), (*balance, half)])),
        (several, ("a tenth of the others extreme", [(extreme, high, math.ceil(others / 10))])),
        (other_axis, ("all others along another axis", [along_axis])),
        (any_, ("all others short", [(extreme / max(others, 10), high, others)])),
    )


def _extreme_point(domain: LabelledBall) -> FloatArray:
    """Return an extreme point: on an axis of the ball, a corner of the cube."""
    corner = np.full(domain.dimension, domain.radius)
    return corner if domain.norm == "linf" else _last_axis(domain)[::-1].copy()


def _last_axis(domain: LabelledBall) -> FloatArray:
    """Return the point on the last axis."""
    return np.append(np.zeros(domain.dimension - 1), domain.radius)


def decode_vector(z: FloatArray, domain: LabelledBall) -> FloatArray:
    """Return the vector of d + 1 coordinates: a direction, and a logarithmic length; a positive
    last coordinate means the boundary.
    """
    length = 10.0 ** (1.5 * min(float(z[-1]), 0.0))
    if domain.norm == "linf":
        return np.asarray(domain.radius * length * np.clip(z[:-1], -1.0, 1.0))
    size = float(np.linalg.norm(z[:-1]))
    return domain.pulled(domain.radius * (length * z[:-1] / size) if size > 0 else 0.0 * z[:-1])


def _split_pair(domain: LabelledBall, pair: Pair) -> tuple[list[Record], list[Counted]] | None:
    """Return the changed records and the common records without padding; None if the datasets
    differ otherwise.
    """
    removed, added = pair.d0.counts() - pair.d1.counts(), pair.d1.counts() - pair.d0.counts()
    if (len(removed), len(added)) != (1, 0 if pair.relation == "add-remove" else 1):
        return None
    x0, y0 = padding(domain)

    def decoded(key: tuple[bytes, float]) -> Record:
        return np.frombuffer(key[0]).copy(), key[1]

    shared = [(*decoded(key), n) for key, n in (pair.d0.counts() & pair.d1.counts()).items()]
    common = [(x, y, n) for x, y, n in shared if np.any(x != x0) or y != y0]
    return [decoded(key) for key in (*removed, *added)], common


def _simpler_vectors(x: FloatArray, domain: LabelledBall) -> Iterator[FloatArray]:
    """Yield simpler vectors inside the domain, with entries set to zero or shortened."""
    size = float(np.abs(x).max())
    for j in np.flatnonzero(x):
        rest = np.where(np.arange(len(x)) == j, 0.0, x)
        length = float(domain.length(rest))
        if domain.norm == "l2" and length > 0 and domain.length(x) >= domain.radius * (1 - 1e-9):
            yield domain.pulled(rest * (domain.radius / length))
        yield rest
    if not 1e-300 < size < 1e300:  # the powers of ten would overflow or underflow
        return
    for digits in DIGITS:
        scale = 10.0 ** (digits - 1 - math.floor(math.log10(size)))
        for simple in (np.round(x * scale) / scale, np.trunc(x * scale) / scale):
            if domain.length(simple) <= domain.radius and np.any(simple != x):
                yield simple
