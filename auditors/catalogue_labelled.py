"""Patterns of neighbouring pairs for labelled vectors and for linear costs: extremes, opposites, one against none, and crowds.

They are shapes of the domain, the same for every mechanism. The search starts from them; a black-box pilot ranks them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from dpwitness.auditors.catalogue import NAMED_LABELS, PLACES, ranked
from dpwitness.mechanisms.datasets import LabelledVectors, LinearCosts
from dpwitness.mechanisms.domains import Costs, LabelledBall
from dpwitness.mechanisms.pairs import Pair
from dpwitness.mechanisms.protocol import FloatArray

__all__ = ["build_labelled", "cost_pairs", "labelled_pairs", "padding"]

Record = tuple[FloatArray, float]
Counted = tuple[FloatArray, float, int]


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


def labelled_pairs(domain: LabelledBall) -> list[Pair | None]:
    """Changed records from the corners of the domain, among common records that say nothing, repeat them, oppose them or balance."""
    crowds, changes = list(_crowds(domain)), list(_changes(domain))
    found = []
    for rank in range(len(crowds) + len(changes) - 1):
        for turn, (common_name, common), (why, first, second) in ranked(crowds, changes, rank):
            at, _ = PLACES[turn]
            found.append(build_labelled(domain, first, second, common, f"{why}, {at}, {common_name}", at))
    return found


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


def cost_pairs(domain: Costs) -> list[Pair | None]:
    """One cost replaced by its negative, by none, or by another corner; in the first round, the middle or the last; with baselines."""
    rounds, p, bound = domain.length, domain.dimension, domain.bound
    lone, split = np.full(p, bound), bound * np.where(np.arange(p) % 2 == 0, 1.0, -1.0)
    lone[0] = -bound
    found = []
    for place in sorted({0, rounds // 2, rounds - 1}):
        for crowd, baseline in (("all others zero", 0 * lone), ("all others against it", -lone), ("all others with it", lone)):
            if rounds == 1 and baseline.any():
                continue
            for why, first, second in (
                ("one action against all others", lone, -lone),
                ("one action favoured or not", lone, 0 * lone),
                ("half against half", split, -split),
                ("one cost shared by all", np.full(p, bound), np.full(p, -bound)),
            ):
                tables = np.repeat(baseline[None, :], rounds, axis=0), np.repeat(baseline[None, :], rounds, axis=0)
                tables[0][place], tables[1][place] = first, second
                text = f"round {place + 1}: {why}, {crowd}"
                found.append(domain.pair(LinearCosts(tables[0]), LinearCosts(tables[1]), text))
    return found
