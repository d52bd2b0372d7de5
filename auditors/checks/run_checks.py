"""Checks of runs and of special data.

*Of runs:* one output per run, randomness from the given generator, no state, and the mechanism's
claim.

*Of special data:* exceptions, shapes and draws that distinguish neighboring datasets, special
values, and few records. The exact certificate compares each difference with the claim: an exception
may depend on the data only as far as the claim allows.
"""

from __future__ import annotations

import contextlib
import dataclasses
import pickle
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.random import SFC64, Generator
from numpy.typing import NDArray

from dpwitness.auditors.audit.result import AuditResult
from dpwitness.auditors.checks.check import (
    CLAIM,
    CLAIM_SHARE,
    LEAST,
    CheckFailed,
    Labels,
    SideChannel,
    Skip,
    Subject,
    Tag,
    all_raise,
    check,
    fail_unless,
    require_indistinguishable,
    skip_unless,
)
from dpwitness.auditors.density.density_check import check_oracle
from dpwitness.auditors.events.outputs import Outputs, encode, row_keys
from dpwitness.auditors.traces.trace import trace
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.auditors.workers.fitness import check_structure, check_training, same_outputs
from dpwitness.auditors.workers.rounds import run_side, stream
from dpwitness.core import Domain, InvalidArgument, Pair
from dpwitness.core.protocols import MechanismFailed
from dpwitness.core.values.json_codec import to_jsonable
from dpwitness.mechanisms.wrappers.programs.target import Target

# findings about the draws, after which the two runs no longer share their noise
_CALLS = ("CALLS", "SHAPE")


@check(share=0.026)
def check_one_output_per_run(subject: Subject) -> None:
    """Check that `size` runs give `size` outputs, for several sizes and on both datasets."""
    for dataset in (subject.pairs[0].d0, subject.pairs[0].d1):
        for size in (1, 2, subject.few(520) // 2 - 3):
            try:
                raw = subject.run(dataset, size, stream(subject.seed, size))
            except MechanismFailed:
                raise
            except Exception:
                continue  # an exception is an output; the audit decides whether the exception leaks
            encode(raw, size)


@check(Tag.SEED, share=0.0066)
def check_same_stream_same_output(subject: Subject) -> None:
    """Check that equal generator states give equal outputs, also in a fresh process: all randomness
    must come from `rng`.
    """
    dataset = subject.pairs[0].d1
    size = subject.few(128) // 2
    first = subject.outputs(dataset, size, 1)
    if isinstance(subject.mechanism, Target):
        subject.mechanism.close()
    fail_unless(
        same_outputs(first, subject.outputs(dataset, size, 1)),
        "two calls with equal generators differ: some randomness does not come from "
        "rng, or the mechanism keeps state between calls",
    )


@check(Tag.SEED, share=0.008)
def check_other_data_leave_no_trace(subject: Subject) -> None:
    """Check that outputs on one dataset do not depend on earlier runs on the other dataset."""
    for pair in subject.pairs[:2]:
        size = subject.few(146) // 5 + 4
        first = subject.outputs(pair.d1, size, 5)
        subject.outputs(pair.d0, 7, 6)
        fail_unless(
            same_outputs(first, subject.outputs(pair.d1, size, 5)),
            "outputs on D1 change after a run on D0: the mechanism keeps state between calls",
        )


@check(share=0.03)
def check_rounds_are_independent(subject: Subject) -> None:
    """Check that each run and each call has fresh noise, and that the shape of outputs stays the
    same.
    """
    for pair in subject.pairs[:1]:
        sides = [
            [subject.outputs(d, subject.few(4096) // 8, 2, i, j) for i in range(4)]
            for j, d in enumerate((pair.d1, pair.d0))
        ]
        check_structure(sides[0], "D1")
        check_training(list(zip(*sides, strict=True)))


@check()
def check_dataset_is_left_alone(subject: Subject) -> None:
    """Check that a call does not change the dataset."""
    for dataset in (subject.pairs[0].d0, subject.pairs[0].d1):
        before = repr(to_jsonable(dataset))
        subject.outputs(dataset, 8, 3)
        fail_unless(
            repr(to_jsonable(dataset)) == before, "the mechanism changes the dataset in place"
        )


@check(Tag.PARAMETERS)
def check_parameters_are_validated(subject: Subject) -> None:
    """Check that NaN and infinity in any float parameter are refused with a message that names the
    parameter.
    """
    mechanism = subject.mechanism
    names = [
        f.name
        for f in dataclasses.fields(mechanism)
        if isinstance(getattr(mechanism, f.name), float)
    ]
    skip_unless(names, "the mechanism has no float parameter")
    for name in names:
        for value in (float("nan"), float("inf")):
            try:
                dataclasses.replace(mechanism, **{name: value})
            except ValueError as error:
                if name not in str(error):
                    raise CheckFailed(
                        f"{name} = {value} is refused with a message that does not name it: {error}"
                    ) from None
            else:
                raise CheckFailed(f"{name} = {value} is accepted")


@check(Tag.TRAVELS)
def check_survives_pickling(subject: Subject) -> None:
    """Check that the mechanism can be pickled and sent to worker processes."""
    try:
        copy = pickle.loads(pickle.dumps(subject.run))
    except Exception as error:
        raise CheckFailed(
            f"the mechanism cannot be pickled for worker processes: {error}"
        ) from None
    dataset = subject.pairs[0].d0
    fail_unless(
        same_outputs(*(run_side(run, dataset, 16, stream(0)) for run in (subject.run, copy))),
        "the pickled copy of the mechanism behaves differently",
    )


@check(Tag.DENSITY, share=0.1)
def check_density_agrees_with_sampler(subject: Subject) -> None:
    """Check that the log-density is the sampler's, by bets and by the bridge identity."""
    subject.require(1000)
    check_oracle(
        subject.mechanism, subject.pairs[0], subject.few(40_000) // 2, stream(subject.seed, 4)
    )


@check(Tag.CLAIM, share=CLAIM_SHARE, group=CLAIM)
def check_claim(subject: Subject) -> None:
    """Check that a black-box audit finds no violation of the mechanism's claim, with a false-alarm
    probability of 1e-9.

    The check is skipped if the outputs on both datasets of all pairs look equal: far more noise
    than the claim needs is no fault.
    """
    result = _shared_audit(subject)
    if result.verdict is Verdict.INCONCLUSIVE and result.exercised is False:
        raise Skip(f"no verdict on the claim: {result.headline()}", result)
    if result.verdict is not Verdict.NOT_REFUTED:
        raise CheckFailed(result.headline(), result)


@check(Tag.CLAIM, share=CLAIM_SHARE, group=CLAIM)
def check_low_bits(subject: Subject) -> None:
    """Check that the low bits of floating-point outputs satisfy the claim."""
    result = _shared_audit(subject)
    if result.bit_level is None:
        bit_notes = (note for note in result.notes if note.startswith("low bits"))
        raise Skip(next(bit_notes, "the outputs are not floating-point numbers"))
    if result.bit_level.verdict in (Verdict.VIOLATED, Verdict.SUSPECT):
        raise CheckFailed(
            f"the low bits certify epsilon > {result.bit_level.epsilon_lower:.4g} against "
            f"{result.claim}",
            result,
            violation=True,
        )


@check(Tag.CLAIM, share=0.004)
def check_noise_played_back(subject: Subject) -> None:
    """Check the run on D0 with the noise of a run on D1.

    The run must move inputs at most by the declared sensitivity, and leak nothing else. Calls or
    draws that differ between the runs are not an output, so such a difference is a note unless the
    user asks for side channels. After such a difference, the two runs do not share their noise.
    """
    skip_unless(
        not (isinstance(subject.mechanism, Target) and subject.mechanism.command),
        "the noise of a program cannot be recorded",
    )
    subject.require(40)  # runs of a trace of a few pairs
    result = trace(
        subject.mechanism,
        subject.pairs[:4],
        subject.claim,
        confirm=False,
        seed=subject.seed,
        name=subject.name,
    )
    # other checks test the source of randomness
    found = [finding for finding in result.findings if finding.kind != "SOURCE"]
    if result.verdict is Verdict.ERROR:
        raise Skip(f"the mechanism cannot be traced: {result.notes[0]}")
    if found:
        calls = [finding for finding in found if finding.kind in _CALLS]
        error, first = (SideChannel, calls[0]) if calls else (CheckFailed, found[0])
        raise error(f"TRACE {first} on the pair '{result.pair.why if result.pair else ''}'")
    skip_unless(result.calls, "none of the mechanism's noise comes from a known primitive")


def _shared_audit(subject: Subject) -> AuditResult:
    """Return the audit of the claim, which `check_claim` and `check_low_bits` share."""
    if "claim" not in subject.audits:
        subject.require(LEAST)
        subject.audits["claim"] = subject.audit(subject.pairs, subject.runs, bits=True)
    return subject.audits["claim"]


_TINY = 5e-324
_SPECIAL = {
    "-0.0": -0.0,
    "the least positive number": _TINY,
    "the greatest negative number": -_TINY,
    "1e-310": 1e-310,
}


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
    one, many = (
        _words(subject.run, subject.pairs[0].d1, size, Generator(SFC64(subject.seed)))
        for size in (1, 64)
    )
    skip_unless(
        many > one, "the mechanism draws from another generator, whose words cannot be counted"
    )
    require_indistinguishable(
        subject,
        _draw_labels,
        "the number of draws, which is not an output, distinguishes the datasets",
        _DrawCounter(subject.mechanism),
        SideChannel,
    )


@check(Tag.CLAIM, Tag.NUMBERS, share=0.06)
def check_special_values_inside(subject: Subject) -> None:
    """Check that the claim also holds for negative zero, denormal numbers and the numbers next to
    the bounds.
    """
    pairs = special_pairs(subject.domain, subject.pairs[0])
    skip_unless(pairs, "the domain holds whole numbers or labels only")
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
        kinds = ["missing"] if np.isnan(changed).any() else ["outside"]
        if np.isinf(changed).any():
            kinds.append("infinite")
        if any(getattr(domain, kind, False) for kind in kinds):
            admitted.append(_changed_pair(domain, base, name, changed))
            continue
        width = min(ordinary.values.shape[1], outputs.values.shape[1])
        sound = np.isfinite(ordinary.values[:, :width]).all(axis=0)
        fail_unless(
            not (sound & ~np.isfinite(outputs.values[:, :width]).any(axis=0)).any(),
            f"{name} in the data is accepted, but makes outputs NaN or infinite that "
            "are finite on ordinary data",
        )
    pairs = list(filter(None, admitted))
    if pairs and Tag.CLAIM.is_met_by(subject):
        subject.small(pairs, "values outside the bounds, which the domain admits, break the claim")


@check(share=0.02)
def check_huge_counts(subject: Subject) -> None:
    """Check that whole numbers beyond the precision of floats are refused or still get noise."""
    skip_unless(
        subject.domain is not None and subject.domain.counts,
        "the mechanism's datasets are not counts",
    )
    for power in (53, 60, 62):
        count = np.zeros_like(subject.pairs[0].d0)
        count[0] = 2**power + 2 ** (power - 53)
        outputs, ordinary = (subject.outputs(data, 64, 7) for data in (count, subject.pairs[0].d0))
        refused = any(name.startswith("raises ") for name in outputs.structures())
        fail_unless(
            refused or _count_distinct(outputs) > 1 or _count_distinct(ordinary) == 1,
            f"the count {count[0]} is published without noise: 64 runs are equal",
        )


def _check_one_record(subject: Subject, pair: Pair) -> None:
    """Check that one record against none does not break the claim, unless both are refused."""
    less, more = sorted((pair.d0, pair.d1), key=len)
    found = (
        _pair_or_none(subject.domain, pair, less[:0], record, "one record against none")
        for record in (more[:1], more[-1:])
    )
    pairs = [
        each
        for each in filter(None, found)
        if not (_is_refused(subject, each.d0) and _is_refused(subject, each.d1))
    ]
    if pairs and subject.stated is not None:
        subject.small(pairs, "one record against none breaks the claim")


@check(Tag.RECORDS, share=0.06)
def check_few_records(subject: Subject) -> None:
    """Check datasets with no record and with a single record.

    The claim must hold if records are added or removed; otherwise, neighboring datasets must be
    both refused or both accepted.
    """
    pair = subject.pairs[0]
    if pair.relation == "add-remove":
        _check_one_record(subject, pair)
        return
    both = zip(pair.d0, pair.d1, strict=True)
    at = next(i for i, (a, b) in enumerate(both) if a.tobytes() != b.tobytes())
    alone = [d[at : at + 1] for d in (pair.d0, pair.d1)]
    refused = [_is_refused(subject, d) for d in alone]
    fail_unless(
        refused[0] == refused[1],
        f"of the two single records {alone[0].tolist()} and {alone[1].tolist()}, only one is "
        "refused",
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
    numbers. It does not depend on the other outputs of a batch, which may have more columns.
    """
    values = outputs.matrix(64, structure=False)
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
        return np.array(
            [
                _words(getattr(self.mechanism, "sample", self.mechanism), dataset, 1, rng)
                for _ in range(size)
            ],
            dtype=np.int64,
        )


def _words(run: Callable[..., Any], dataset: Any, size: int, rng: Generator) -> int:
    """Return the number of 64-bit words that one batch of `size` runs draws from an SFC64
    generator, by the counter in its state.
    """
    before = int(rng.bit_generator.state["state"]["state"][3])
    with contextlib.suppress(Exception):
        run(dataset, size, rng)
    return int(rng.bit_generator.state["state"]["state"][3]) - before


def _is_refused(subject: Subject, dataset: Any) -> bool:
    """Return whether all of a few runs on `dataset` raise."""
    return all_raise(subject.outputs(dataset, 8, 7))


def _count_distinct(outputs: Outputs) -> int:
    """Return the number of distinct outputs."""
    return len(np.unique(row_keys(outputs.matrix())))


def _values_inside(domain: Domain | None) -> dict[str, float]:
    """Return special values inside the domain's bounds, by their names."""
    bounds = None if domain is None else domain.interval
    if bounds is None:
        return {}
    low, high = bounds
    return {name: value for name, value in _SPECIAL.items() if low <= value <= high} | {
        "the number above the lower bound": float(np.nextafter(low, high)),
        "the number below the upper bound": float(np.nextafter(high, low)),
    }


def _values_outside(domain: Domain | None) -> dict[str, float]:
    """Return values that are not finite, huge or outside the domain's bounds, by their names."""
    values = {"NaN": np.nan, "infinity": np.inf, "minus infinity": -np.inf, "1e300": 1e300}
    bounds = None if domain is None else domain.interval
    if bounds is not None:
        low, high = bounds
        values["ten ranges above the upper bound"] = high + 10 * (high - low)
        values["ten ranges below the lower bound"] = low - 10 * (high - low)
    return values


def _longer_dataset(pair: Pair) -> Any:
    return max(pair.d0, pair.d1, key=len)


def _with_values(pair: Pair, values: Mapping[str, float]) -> Iterator[tuple[str, Any]]:
    """Yield the pair's longer dataset with the first number of the last record replaced by each
    value that changes the dataset.
    """
    for name, value in values.items():
        changed = _longer_dataset(pair).copy()
        changed[(-1, *[0] * (changed.ndim - 1))] = value
        if changed.tobytes() != _longer_dataset(pair).tobytes():
            yield name, changed


def special_pairs(domain: Domain | None, base: Pair) -> list[Pair]:
    """Return pairs inside the domain that contain a negative zero, a denormal number or a number
    next to a bound.
    """
    changes = _with_values(base, _values_inside(domain))
    return list(filter(None, (_changed_pair(domain, base, *change) for change in changes)))


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
