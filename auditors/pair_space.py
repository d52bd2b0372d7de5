"""Neighbouring pairs as points of R^k, for searches that need coordinates, and as draws on a lattice, for searches that shrink.

A standard normal point decodes to a varied pair: directions are uniform, half of the records lie on the boundary, sizes and multiplicities
spread over all their orders of magnitude.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from dpwitness.auditors.catalogue import PLACES, between, inserted
from dpwitness.auditors.catalogue_labelled import build_labelled
from dpwitness.auditors.pair_random import RandomPairs, matching
from dpwitness.mechanisms.datasets import LinearCosts
from dpwitness.mechanisms.domains import Answers, Costs, Counts, Domain, LabelledBall, Records, Rows
from dpwitness.mechanisms.pairs import Pair
from dpwitness.mechanisms.protocol import FloatArray
from dpwitness.mechanisms.validation import InvalidArgument, shown

__all__ = ["Shape", "draw_shape", "require_neighbours", "within_ball"]


@dataclass(frozen=True, slots=True)
class Shape:
    """One way to lay out a pair in R^`size`. `decode` gives None where a point is no pair of neighbours that differ."""

    size: int
    decode: Callable[[FloatArray], Pair | None]


def require_neighbours(domain: Domain, owner: str) -> None:
    """An InvalidArgument unless it is a domain that the search knows; each of those has neighbours, as it was built."""
    if not isinstance(domain, Answers | Counts | Records | Rows | LabelledBall | Costs):
        kinds = "Answers, Counts, Records, Rows, LabelledBall or Costs"
        raise InvalidArgument(f"{owner}: domain must be one of {kinds}, got {shown(domain)}")


def draw_shape(domain: Domain, rng: Generator, turn: int) -> Shape:
    """A layout for the search's `turn`-th start; what is no coordinate (labels, categories, places, how many differ) is drawn."""
    if isinstance(domain, LabelledBall):
        return _labelled(domain, rng, turn)
    if isinstance(domain, Costs):
        return _costs(domain, rng, turn)
    if isinstance(domain, Rows):
        return _rows(domain, rng, turn)
    if isinstance(domain, Counts):
        return _counts(domain)
    return _answers(domain) if isinstance(domain, Answers) else _records(domain, rng, turn)  # type: ignore[arg-type]


def within_ball(z: FloatArray, domain: LabelledBall) -> FloatArray:
    """d + 1 coordinates to a vector: a direction, and a length whose logarithm the last one moves; positive means on the boundary."""
    length = 10.0 ** (1.5 * min(float(z[-1]), 0.0))
    if domain.norm == "linf":
        return np.asarray(domain.radius * length * np.clip(z[:-1], -1.0, 1.0))
    size = float(np.linalg.norm(z[:-1]))
    return domain.pulled(domain.radius * (length * z[:-1] / size) if size > 0 else 0.0 * z[:-1])


def _labelled(domain: LabelledBall, rng: Generator, turn: int) -> Shape:
    d, others = domain.dimension, domain.size - 1
    distinct = min((1, 2, 0, 3)[turn % 4], others)
    changed = 2 if domain.relation == "replace-one" else 1
    width = d + 1
    labels = [float(v) for v in rng.choice(np.array(domain.labels, dtype=float), changed + distinct)]
    if turn % 2 == 0 and len(domain.labels) > 1:  # every other start turns the label over, where slopes oppose most
        labels[:changed] = [max(domain.labels), min(domain.labels)][:changed]
    top = np.log10(max(others, 1))
    at, _ = PLACES[turn // 4 % 3]

    def decode(z: FloatArray) -> Pair | None:
        records = [(within_ball(z[i * width : (i + 1) * width], domain), labels[i]) for i in range(changed + distinct)]
        exponents = np.clip(top / 2 + top * z[(changed + distinct) * width :] / 3, 0.0, top)
        counts = np.floor(10.0**exponents)
        if counts.sum() > others:
            counts = np.floor(counts * (others / counts.sum()))
        common = [(x, y, int(c)) for (x, y), c in zip(records[changed:], counts, strict=True) if c >= 1]
        return build_labelled(domain, records[0], records[changed - 1], common, "search", at)

    return Shape((changed + distinct) * width + distinct, decode)


def _costs(domain: Costs, rng: Generator, turn: int) -> Shape:
    p, rounds, bound = domain.dimension, domain.length, domain.bound
    place = 0 if turn % 3 < 2 else int(rng.integers(rounds))
    held = rounds > 1 and turn % 2 == 0

    def decode(z: FloatArray) -> Pair | None:
        table = np.zeros((rounds, p))
        if held:  # a cost that some of the following rounds share
            copies = int(np.clip(np.floor(10 ** (np.log10(rounds) * (0.5 + z[3 * p] / 3))), 0, rounds - 1))
            rest = np.delete(np.arange(rounds), place)[place : place + copies] if place + copies < rounds else np.arange(rounds)
            table[rest] = bound * np.clip(z[2 * p : 3 * p], -1, 1)
        first, second = table.copy(), table.copy()
        first[place], second[place] = bound * np.clip(z[:p], -1, 1), bound * np.clip(z[p : 2 * p], -1, 1)
        return domain.pair(LinearCosts(first), LinearCosts(second), "search")

    return Shape(3 * p + 1 if held else 2 * p, decode)


def _answers(domain: Answers) -> Shape:
    n = domain.length

    def decode(z: FloatArray) -> Pair | None:
        step = z[n:]
        if domain.relation == "linf":
            step = np.clip(step, -1, 1)
        else:
            size = float(np.linalg.norm(step, 1 if domain.relation == "l1" else 2))
            step = step / size if size > 0 else step
        base = between(domain.low, domain.high, 0.5 + 0.5 * np.clip(0.7 * z[:n], -1, 1))
        base = np.clip(base, domain.low + np.maximum(-step, 0), domain.high - np.maximum(step, 0))
        return domain.pair(base, np.clip(base + step, domain.low, domain.high), "search")

    return Shape(2 * n, decode)


def _counts(domain: Counts) -> Shape:
    """Whole numbers spread over all sizes; some of them, for l1 and l2 one, move by one."""
    n = domain.length

    def decode(z: FloatArray) -> Pair | None:
        shares = np.clip(0.5 + 0.2 * z[:n], 0.0, 1.0)
        width = domain.high - domain.low
        base = np.array([domain.low + min(round(float(share) * width), width) for share in shares], dtype=np.int64)
        step = np.sign(np.round(z[n:])).astype(np.int64)
        if domain.relation != "linf":
            step = np.sign(z[n:]).astype(np.int64) * (np.arange(n) == int(np.argmax(np.abs(z[n:]))))
        up, down = base < domain.high, base > domain.low  # a step that would leave the bounds is turned over
        moved = base + np.where(step > 0, np.where(up, 1, -1), np.where(step < 0, np.where(down, -1, 1), 0))
        return domain.pair(base, moved, "search")

    return Shape(2 * n, decode)


def _rows(domain: Rows, rng: Generator, turn: int) -> Shape:
    """A changed row among up to three different ones that fill the rest, or one that stays at the bottom. Categories are drawn."""
    ends = domain.ends
    k, others = len(ends), domain.size - 1
    distinct = min(max((1, 2, 3, 0)[turn % 4], len(domain.labels) if domain.every_label else 0), others)
    labels = rng.choice(np.array(domain.labels), 2 + distinct) if domain.labels else np.zeros(2 + distinct)
    if domain.labels and turn % 2 == 0:
        labels[:2] = max(domain.labels), min(domain.labels)
    if domain.every_label:
        labels[2:] = np.resize(np.array(domain.labels), distinct)
        if missing := set(domain.labels) - set(labels[2:].tolist()):  # as many records as labels: the changed one keeps the last
            labels[:2] = missing.pop()
    which = np.sort(np.append(np.arange(distinct), rng.integers(0, max(distinct, 1), others - distinct)))
    _, place = PLACES[int(rng.integers(3))]
    drawn = RandomPairs(domain, rng).rows(3 + distinct, corners=False)[:, :k]
    for column in domain.categories:
        if ends[column, 0] < ends[column, 1]:
            drawn[:2, column] = matching(float(ends[column, 0]), float(ends[column, 1]), rng)[0]
    moving = np.setdiff1d(np.arange(k), domain.categories)
    whole = np.flatnonzero(np.isin(moving, domain.integer))
    bottom = np.where(np.isin(np.arange(k), moving), ends[:, 0], drawn[-1])
    base = np.tile(np.append(bottom, labels[:1]) if domain.labels else bottom, (others, 1))

    def decode(z: FloatArray) -> Pair | None:
        values = between(ends[moving, 0], ends[moving, 1], np.clip(0.5 + 0.4 * z.reshape(2 + distinct, len(moving)), 0.0, 1.0))
        values[:, whole] = np.round(values[:, whole])
        rows = drawn[:-1].copy()
        rows[:, moving] = values
        if domain.labels:
            rows = np.column_stack([rows, labels])
        crowd = rows[2:][which] if distinct else base
        first = crowd if domain.relation == "add-remove" else inserted(crowd, rows[0], place)
        return domain.pair(first, inserted(crowd, rows[1], place), "search")

    return Shape((2 + distinct) * len(moving), decode)


def _records(domain: Records, rng: Generator, turn: int) -> Shape:
    """A changed record among up to four different values, each repeated. Categories are drawn, as whole numbers are in every third turn."""
    distinct = min(domain.size - 1, 4)
    shares = rng.dirichlet(np.ones(distinct)) if distinct else np.zeros(0)
    copies = np.maximum(1, np.floor(shares * (domain.size - 1))).astype(int)
    if distinct:
        copies[-1] += domain.size - 1 - int(copies.sum())
        if copies[-1] < 1:
            copies = np.full(distinct, (domain.size - 1) // distinct)
            copies[-1] += domain.size - 1 - int(copies.sum())
    _, place = PLACES[turn % 3]
    low, high = domain.ends
    fixed = domain.categories or (domain.integer and turn % 3 == 2)
    drawn = RandomPairs(domain, rng).rows(2 + distinct, corners=False)[:, 0] if fixed else np.zeros(2 + distinct)
    if fixed and low < high:
        drawn[:2] = matching(low, high, rng)[0]

    def decode(z: FloatArray) -> Pair | None:
        values = drawn if fixed else between(low, high, np.clip(0.5 + 0.4 * z, 0, 1))
        if domain.integer:
            values = np.round(values)
        common = np.repeat(values[2:], copies)
        first = common if domain.relation == "add-remove" else inserted(common, values[0], place)
        return domain.pair(first, inserted(common, values[1], place), "search")

    return Shape(0 if fixed else 2 + distinct, decode)
