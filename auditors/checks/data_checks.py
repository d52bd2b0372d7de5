"""Checks of special data: exceptions, shapes and draws that distinguish neighboring datasets,
special values, and few records.

The exact certificate compares each difference with the claim: an exception may depend on the data
only as far as the claim allows.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.random import SFC64, Generator
from numpy.typing import NDArray

from dpwitness.auditors.checks.check import (
    CheckFailed,
    Labels,
    SideChannel,
    Skip,
    Subject,
    Tag,
    all_raise,
    check,
    require_indistinguishable,
    words_drawn,
)
from dpwitness.auditors.events.outputs import Outputs, row_keys
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.domains import Domain
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.mechanisms.wrappers.programs.target import Target

_TINY = 5e-324


@check(Tag.CLAIM, share=0.06)
def check_exceptions_do_not_tell(subject: Subject) -> None:
    """Check that a run's exceptions do not distinguish neighboring datasets beyond the claim, over
    all pairs.
    """
    require_indistinguishable(subject, _exception_labels, "exceptions distinguish the datasets")


@check(Tag.CLAIM, share=0.06)
def check_shapes_do_not_tell(subject: Subject) -> None:
    """Check that the form of the output does not distinguish neighboring datasets beyond the claim.

    The form is the type, shape, length and keys of an output, and the places of NaN and infinite
    numbers. An exception is a type too.
    """
    require_indistinguishable(
        subject, _shape_labels, "the form of the output distinguishes the datasets"
    )


@check(Tag.CLAIM, Tag.SEED, share=0.06)
def check_draws_do_not_tell(subject: Subject) -> None:
    """Check that the number of random words per run, as a proxy for time, does not distinguish
    neighboring datasets beyond the claim.

    The number of draws is not an output: a sound mechanism may draw one coin per record. So a
    difference is a note unless it is asked for.
    """
    one, many = (_words_of_batch(subject, subject.pairs[0].d1, size) for size in (1, 64))
    if many <= one:
        raise Skip("the mechanism draws from another generator, whose words cannot be counted")
    what = "the number of draws, which is not an output, distinguishes the datasets"
    require_indistinguishable(
        subject, _draw_labels, what, _DrawCounter(subject.mechanism), SideChannel
    )


@check(Tag.CLAIM, Tag.NUMBERS, share=0.06)
def check_special_values_inside(subject: Subject) -> None:
    """Check that the claim also holds for negative zero, denormal numbers and the numbers next to
    the bounds.
    """
    pairs = special_pairs(subject.domain, subject.pairs[0])
    if not pairs:
        raise Skip("the domain holds whole numbers or labels only")
    subject.small(pairs, "special values inside the domain break the claim")


@check(Tag.NUMBERS, share=0.06)
def check_values_outside_domain(subject: Subject) -> None:
    """Check that NaN, infinite, huge and out-of-range values are refused or leave outputs finite.

    Where the domain admits such values, the claim must hold for them.
    """
    domain, base, admitted = subject.domain, subject.pairs[0], []
    ordinary = subject.outputs(_longer_dataset(base), 32, 7)
    for name, changed in _with_values(base, _values_outside(domain)):
        outputs = subject.outputs(changed, 32, 7)
        if all_raise(outputs):
            continue
        if getattr(domain, "missing" if np.isnan(changed).any() else "outside", False):
            admitted.append(_changed_pair(domain, base, name, changed))
        elif _breaks_numbers(ordinary, outputs):
            raise CheckFailed(
                f"{name} in the data is accepted, but makes outputs NaN or infinite that are "
                "finite on ordinary data"
            )
    pairs = [pair for pair in admitted if pair is not None]
    if pairs and Tag.CLAIM.is_met_by(subject):
        subject.small(pairs, "values outside the bounds, which the domain admits, break the claim")


@check(share=0.02)
def check_huge_counts(subject: Subject) -> None:
    """Check that whole numbers beyond the precision of floats are refused or still get noise."""
    if subject.domain is None or not subject.domain.counts:
        raise Skip("the mechanism's datasets are not counts")
    for power in (53, 60, 62):
        count = np.zeros_like(subject.pairs[0].d0)
        count[0] = 2**power + 2 ** (power - 53)
        outputs, ordinary = (subject.outputs(data, 64, 7) for data in (count, subject.pairs[0].d0))
        refused = any(name.startswith("raises ") for name in outputs.structures())
        if not refused and _count_distinct(outputs) == 1 < _count_distinct(ordinary):
            raise CheckFailed(f"the count {count[0]} is published without noise: 64 runs are equal")


@check(Tag.RECORDS, share=0.06)
def check_few_records(subject: Subject) -> None:
    """Check datasets with no record and with a single record.

    The claim must hold if records are added or removed; otherwise, neighboring datasets must be
    both refused or both accepted.
    """
    pair = subject.pairs[0]
    if pair.relation == "add-remove":
        more, less = (pair.d1, pair.d0) if len(pair.d1) > len(pair.d0) else (pair.d0, pair.d1)
        low, high = more[:1], more[-1:]
        found = [
            _pair_or_none(subject.domain, pair, less[:0], record, "one record against none")
            for record in (low, high)
        ]
        pairs = [
            p
            for p in found
            if p is not None and not (_is_refused(subject, p.d0) and _is_refused(subject, p.d1))
        ]
        if pairs and getattr(subject.mechanism, "claim", None) is not None:
            subject.small(pairs, "one record against none breaks the claim")
        return
    at = int(
        np.flatnonzero([a.tobytes() != b.tobytes() for a, b in zip(pair.d0, pair.d1, strict=True)])[
            0
        ]
    )
    alone = [d[at : at + 1] for d in (pair.d0, pair.d1)]
    refused = [_is_refused(subject, d) for d in alone]
    if refused[0] != refused[1]:
        raise CheckFailed(
            f"of the two single records {alone[0].tolist()} and {alone[1].tolist()}, only "
            "one is refused"
        )
    # the number of records is public, so the run may raise, but must not hang or end the process
    _is_refused(subject, pair.d0[:0])


def _exception_labels(outputs: Outputs) -> Labels:
    """Return a label of the exception of each run; 0 for runs that do not raise."""
    raised = np.array(
        [outputs.names[code].startswith("raises ") for code in outputs.codes.tolist()], dtype=bool
    )
    return np.where(raised, row_keys(outputs.matrix()).view(np.int64), 0)


def _shape_labels(outputs: Outputs) -> Labels:
    """Return a label of the form of each output: type, shape, and places of NaN and infinite
    numbers.
    """
    values = outputs.values[:, :64]
    form = np.where(
        np.isnan(values), 1.0, np.where(np.isinf(values), 2.0 + np.signbit(values), 0.0)
    )
    return row_keys(np.column_stack([outputs.codes, form])).view(np.int64)


def _draw_labels(outputs: Outputs) -> Labels:
    """Return the number of random words of each run as a label."""
    return outputs.values[:, 0].astype(np.int64)


@dataclasses.dataclass(frozen=True, slots=True)
class _DrawCounter:
    """A mechanism whose outputs are the numbers of random words that single runs draw."""

    mechanism: Any

    def __call__(self, dataset: Any, size: int, rng: Generator) -> NDArray[np.int64]:
        if isinstance(self.mechanism, Target):
            return self.mechanism.draws(dataset, size, rng)
        run = getattr(self.mechanism, "sample", self.mechanism)
        counts = np.empty(size, dtype=np.int64)
        for i in range(size):
            before = words_drawn(rng)
            with contextlib.suppress(Exception):
                run(dataset, 1, rng)
            counts[i] = words_drawn(rng) - before
        return counts


def _words_of_batch(subject: Subject, dataset: Any, size: int) -> int:
    """Return the number of random words that one batch of `size` runs draws."""
    rng = Generator(SFC64(subject.seed))
    if isinstance(subject.mechanism, Target):
        return subject.mechanism.words(dataset, size, rng)
    before = words_drawn(rng)
    try:
        subject.run(dataset, size, rng)
    except Exception:
        return 0
    return words_drawn(rng) - before


def _is_refused(subject: Subject, dataset: Any) -> bool:
    """Return whether all of a few runs on `dataset` raise."""
    return all_raise(subject.outputs(dataset, 8, 7))


def _breaks_numbers(ordinary: Outputs, special: Outputs) -> bool:
    """Return whether a number is finite in every ordinary run and NaN or infinite in every special
    run.
    """
    width = min(ordinary.values.shape[1], special.values.shape[1])
    sound, wrong = (
        np.isfinite(ordinary.values[:, :width]).all(axis=0),
        ~np.isfinite(special.values[:, :width]).any(axis=0),
    )
    return bool((sound & wrong).any())


def _count_distinct(outputs: Outputs) -> int:
    """Return the number of distinct outputs."""
    return len(np.unique(row_keys(outputs.matrix())))


def _values_inside(domain: Domain | None) -> Iterator[tuple[str, float]]:
    """Yield special values inside the domain's bounds, with their names."""
    bounds = None if domain is None else domain.interval
    if bounds is None:
        return
    low, high = bounds
    for name, value in (
        ("-0.0", -0.0),
        ("the least positive number", _TINY),
        ("the greatest negative number", -_TINY),
        ("1e-310", 1e-310),
    ):
        if low <= value <= high:
            yield name, value
    yield "the number above the lower bound", float(np.nextafter(low, high))
    yield "the number below the upper bound", float(np.nextafter(high, low))


def _values_outside(domain: Domain | None) -> Iterator[tuple[str, float]]:
    """Yield values that are not finite, huge or outside the domain's bounds, with their names."""
    yield "NaN", np.nan
    yield "infinity", np.inf
    yield "minus infinity", -np.inf
    yield "1e300", 1e300
    bounds = None if domain is None else domain.interval
    if bounds is not None:
        low, high = bounds
        yield "ten ranges above the upper bound", high + 10 * (high - low)
        yield "ten ranges below the lower bound", low - 10 * (high - low)


def _longer_dataset(pair: Pair) -> Any:
    return max(pair.d0, pair.d1, key=len)


def _with_values(pair: Pair, values: Iterator[tuple[str, float]]) -> Iterator[tuple[str, Any]]:
    """Yield the pair's longer dataset with the first number of the last record replaced by each
    value that changes the dataset.
    """
    for name, value in values:
        changed = _longer_dataset(pair).copy()
        changed[(-1, *[0] * (changed.ndim - 1))] = value
        if changed.tobytes() != _longer_dataset(pair).tobytes():
            yield name, changed


def special_pairs(domain: Domain | None, base: Pair) -> list[Pair]:
    """Return pairs inside the domain that contain a negative zero, a denormal number or a number
    next to a bound.
    """
    found = [
        _changed_pair(domain, base, name, changed)
        for name, changed in _with_values(base, _values_inside(domain))
    ]
    return [pair for pair in found if pair is not None]


def _changed_pair(domain: Domain | None, pair: Pair, name: str, changed: Any) -> Pair | None:
    """Return the pair of the changed dataset and its neighbor, or None if they are not neighbors.

    The neighbor is the original dataset, or the changed dataset without its last record if records
    are added or removed.
    """
    added = pair.relation == "add-remove"
    other, why = (
        (changed[:-1], f"a record with {name} added")
        if added
        else (_longer_dataset(pair), f"a value becomes {name}")
    )
    return _pair_or_none(domain, pair, other, changed, why)


def _pair_or_none(domain: Domain | None, like: Pair, d0: Any, d1: Any, why: str) -> Pair | None:
    """Return the pair of d0 and d1, or None if they are not neighbors or leave the domain of
    `like`.
    """
    if isinstance(domain, Domain) and domain.holds(like):
        return domain.pair(d0, d1, why)
    try:
        return Pair(d0, d1, like.relation, why)
    except InvalidArgument:
        return None
