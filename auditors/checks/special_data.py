"""Checks of what data can do to a mechanism: exceptions, shapes and draws that tell neighbours apart, special values, few records.

What tells neighbours apart is held against the claim, by the exact certificate: an exception may depend on the data as far as the claim
allows, and no further.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.random import SFC64, Generator
from numpy.typing import NDArray

from dpwitness.auditors.checks.kit import CheckFailed, Labels, Skip, Subject, Tag, check, drawn, fail_if_told_apart
from dpwitness.auditors.events.outputs import Outputs, row_keys
from dpwitness.mechanisms.domains import Domain
from dpwitness.mechanisms.foreign.target import Target
from dpwitness.mechanisms.terms.pairs import Pair
from dpwitness.mechanisms.terms.validation import InvalidArgument

_TINY = 5e-324
_HUGE = 1e300


@check(Tag.CLAIM, share=0.06)
def check_exceptions_do_not_tell(subject: Subject) -> None:
    """Whether and what a run raises does not tell neighbours apart beyond the claim, over all pairs."""
    fail_if_told_apart(subject, _exceptions, "exceptions tell the datasets apart")


@check(Tag.CLAIM, share=0.06)
def check_shapes_do_not_tell(subject: Subject) -> None:
    """Type, shape, length and keys of an output (an exception is a type too) do not tell, nor which of its numbers are NaN or infinite."""
    fail_if_told_apart(subject, _shapes, "the form of the output tells the datasets apart")


@check(Tag.CLAIM, Tag.SEED, share=0.06)
def check_draws_do_not_tell(subject: Subject) -> None:
    """How many random words a run takes, a stand-in for its time, does not tell neighbours apart beyond the claim."""
    one, many = (_words(subject, subject.pairs[0].d1, size) for size in (1, 64))
    if many <= one:
        raise Skip("it draws from a generator of its own, whose words cannot be counted")
    fail_if_told_apart(subject, _draws, "the number of random draws tells the datasets apart", _Draws(subject.mechanism))


@check(Tag.CLAIM, Tag.NUMBERS, share=0.06)
def check_special_values_inside(subject: Subject) -> None:
    """Negative zero, denormal numbers and the numbers next to the bounds keep the claim as other values of the domain do."""
    pairs = special_pairs(subject.domain, subject.pairs[0])
    if not pairs:
        raise Skip("the domain holds whole numbers or labels only")
    subject.small(pairs, "special values inside the domain break the claim")


@check(Tag.NUMBERS, share=0.06)
def check_values_outside_domain(subject: Subject) -> None:
    """NaN, infinities, huge and out-of-range values are refused or leave outputs finite; where the domain admits them, the claim holds."""
    domain, base, admitted = subject.domain, subject.pairs[0], []
    ordinary = subject.outputs(_longer(base), 32, 7)
    for name, changed in _with_values(base, _outside(domain)):
        outputs = subject.outputs(changed, 32, 7)
        if all(told.startswith("raises ") for told in outputs.structures()):
            continue
        if getattr(domain, "missing" if np.isnan(changed).any() else "outside", False):
            admitted.append(_pair(domain, base, name, changed))
        elif _ruined(ordinary, outputs):
            raise CheckFailed(f"{name} among the data is not refused, and outputs are NaN or infinite for it alone")
    pairs = [pair for pair in admitted if pair is not None]
    if pairs and Tag.CLAIM.given(subject):
        subject.small(pairs, "values outside the bounds, which the domain admits, break the claim")


@check(share=0.02)
def check_huge_counts(subject: Subject) -> None:
    """Whole numbers beyond the precision of floats are refused or still get noise."""
    if subject.domain is None or not subject.domain.counts:
        raise Skip("its datasets are no counts")
    for power in (53, 60, 62):
        count = np.zeros_like(subject.pairs[0].d0)
        count[0] = 2**power + 2 ** (power - 53)
        outputs, ordinary = (subject.outputs(data, 64, 7) for data in (count, subject.pairs[0].d0))
        refused = any(name.startswith("raises ") for name in outputs.structures())
        if not refused and _distinct(outputs) == 1 < _distinct(ordinary):
            raise CheckFailed(f"the count {count[0]} is published without noise: 64 runs are equal")


@check(Tag.RECORDS, share=0.06)
def check_few_records(subject: Subject) -> None:
    """No record and a single record: the claim holds where records are added or removed; otherwise neighbours are treated alike."""
    pair = subject.pairs[0]
    if pair.relation == "add-remove":
        more, less = (pair.d1, pair.d0) if len(pair.d1) > len(pair.d0) else (pair.d0, pair.d1)
        low, high = more[:1], more[-1:]
        found = [_neighbours(subject.domain, pair, less[:0], record, "one record against none") for record in (low, high)]
        pairs = [p for p in found if p is not None and not (_refuses(subject, p.d0) and _refuses(subject, p.d1))]
        if pairs and getattr(subject.mechanism, "claim", None) is not None:
            subject.small(pairs, "one record against none breaks the claim")
        return
    at = int(np.flatnonzero([a.tobytes() != b.tobytes() for a, b in zip(pair.d0, pair.d1, strict=True)])[0])
    alone = [d[at : at + 1] for d in (pair.d0, pair.d1)]
    refused = [_refuses(subject, d) for d in alone]
    if refused[0] != refused[1]:
        raise CheckFailed(f"of two single records {alone[0].tolist()} and {alone[1].tolist()} one is refused and the other is not")
    _refuses(subject, pair.d0[:0])  # the number of records is public, so it may raise, but it may not hang or end the process


def _exceptions(outputs: Outputs) -> Labels:
    raised = np.array([outputs.names[code].startswith("raises ") for code in outputs.codes.tolist()], dtype=bool)
    return np.where(raised, row_keys(outputs.matrix()).view(np.int64), 0)


def _shapes(outputs: Outputs) -> Labels:
    values = outputs.values[:, :64]
    form = np.where(np.isnan(values), 1.0, np.where(np.isinf(values), 2.0 + np.signbit(values), 0.0))
    return row_keys(np.column_stack([outputs.codes, form])).view(np.int64)


def _draws(outputs: Outputs) -> Labels:
    return outputs.values[:, 0].astype(np.int64)


@dataclasses.dataclass(frozen=True, slots=True)
class _Draws:
    """The words that single runs draw, as a mechanism."""

    mechanism: Any

    def __call__(self, dataset: Any, size: int, rng: Generator) -> NDArray[np.int64]:
        if isinstance(self.mechanism, Target):
            return self.mechanism.draws(dataset, size, rng)
        run = getattr(self.mechanism, "sample", self.mechanism)
        counts = np.empty(size, dtype=np.int64)
        for i in range(size):
            before = drawn(rng)
            try:
                run(dataset, 1, rng)
            except Exception:
                counts[i] = drawn(rng) - before
            else:
                counts[i] = drawn(rng) - before
        return counts


def _words(subject: Subject, dataset: Any, size: int) -> int:
    """Random words that one batch of `size` runs draws."""
    rng = Generator(SFC64(subject.seed))
    if isinstance(subject.mechanism, Target):
        return subject.mechanism.words(dataset, size, rng)
    before = drawn(rng)
    try:
        subject.run(dataset, size, rng)
    except Exception:
        return 0
    return drawn(rng) - before


def _refuses(subject: Subject, dataset: Any) -> bool:
    """Whether every one of a few runs raises."""
    outputs = subject.outputs(dataset, 8, 7)
    return all(name.startswith("raises ") for name in outputs.structures())


def _ruined(ordinary: Outputs, special: Outputs) -> bool:
    """Whether a number that is finite in every ordinary run is NaN or infinite in every special one."""
    width = min(ordinary.values.shape[1], special.values.shape[1])
    sound, wrong = np.isfinite(ordinary.values[:, :width]).all(axis=0), ~np.isfinite(special.values[:, :width]).any(axis=0)
    return bool((sound & wrong).any())


def _distinct(outputs: Outputs) -> int:
    return len(np.unique(row_keys(outputs.matrix())))


def _inside(domain: Domain | None) -> Iterator[tuple[str, float]]:
    bounds = None if domain is None else domain.interval
    if bounds is None:
        return
    low, high = bounds
    for name, value in (("-0.0", -0.0), ("the least positive number", _TINY), ("the greatest negative number", -_TINY), ("1e-310", 1e-310)):
        if low <= value <= high:
            yield name, value
    yield "the number above the lower bound", float(np.nextafter(low, high))
    yield "the number below the upper bound", float(np.nextafter(high, low))


def _outside(domain: Domain | None) -> Iterator[tuple[str, float]]:
    yield "NaN", np.nan
    yield "infinity", np.inf
    yield "minus infinity", -np.inf
    yield "1e300", _HUGE
    bounds = None if domain is None else domain.interval
    if bounds is not None:
        low, high = bounds
        yield "ten ranges above the upper bound", high + 10 * (high - low)
        yield "ten ranges below the lower bound", low - 10 * (high - low)


def _longer(pair: Pair) -> Any:
    return max(pair.d0, pair.d1, key=len)


def _with_values(pair: Pair, values: Iterator[tuple[str, float]]) -> Iterator[tuple[str, Any]]:
    """The pair's longer dataset with the first number of its last record replaced by each value that is not there already."""
    for name, value in values:
        changed = _longer(pair).copy()
        changed[(-1, *[0] * (changed.ndim - 1))] = value
        if changed.tobytes() != _longer(pair).tobytes():
            yield name, changed


def special_pairs(domain: Domain | None, base: Pair) -> list[Pair]:
    """Pairs inside the domain one of whose values is negative zero, denormal or next to a bound."""
    found = [_pair(domain, base, name, changed) for name, changed in _with_values(base, _inside(domain))]
    return [pair for pair in found if pair is not None]


def _pair(domain: Domain | None, pair: Pair, name: str, changed: Any) -> Pair | None:
    """The changed dataset against the one it was made from, or without its last record; None where they are no neighbours."""
    added = pair.relation == "add-remove"
    other, why = (changed[:-1], f"a record with {name} added") if added else (_longer(pair), f"a value becomes {name}")
    return _neighbours(domain, pair, other, changed, why)


def _neighbours(domain: Domain | None, like: Pair, d0: Any, d1: Any, why: str) -> Pair | None:
    """The pair; None where it is none, or leaves the domain that `like` lies in."""
    if isinstance(domain, Domain) and domain.holds(like):
        return domain.pair(d0, d1, why)
    try:
        return Pair(d0, d1, like.relation, why)
    except InvalidArgument:
        return None
