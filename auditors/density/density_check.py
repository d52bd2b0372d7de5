"""Test that a log-density is the sampler's, before any conclusion is drawn from the density.

Bets against the density (`density_bets`, `mismatch`), and tests of its total mass, of the ratio of
two densities and of repeated outputs, share the probability `FALSE_ALARM` that a correct density is
refused. A contradiction with a computed law alone is not a reason to refuse a density: the law may
be wrong. Points next to outputs show whether a law has a density there or lies on a surface.

**Bridge identity** (Meng and Wong 1996). For densities p, g: E_P[g / (p + g)] = E_G[p / (p + g)],
both the integral of pg / (p + g). Both sides are means of variables in [0, 1], so the sides can be
compared without any assumption on the weights p/g. If the log-density given for P is ln(c p), or is
not the sampler's, the sides differ, and their ratio is an estimate of c. With g = q, the identity
says that E_P[q/p] = 1 where the supports agree. On parts of the output space, the identity says
that p/q is right there. With g a normal law fitted to other outputs, the identity says that p
integrates to one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import bdtr, bdtrc, expit

from dpwitness.auditors.density.density_bets import SampledSide, log_capital_won
from dpwitness.auditors.density.routes import (
    BadOracle,
    LogDensity,
    density_of,
    fills_space,
    rows_of_call,
    step_aside,
)
from dpwitness.auditors.statistics.anytime import log_dependence
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.protocols import FloatArray, log_density_at

if TYPE_CHECKING:
    from dpwitness.auditors.statistics.loss_law import EnclosedLaw

FALSE_ALARM = 1e-6  # probability of a false alarm of all tests of one oracle together
_MASS_TOLERANCE = 1e-6  # tolerance of a total mass that was summed or integrated
# calls among which rows are divided, if there are at least so many rows
_CALLS, _LEAST_ROWS = 32, 512
_PARTS = 8  # parts of the output space, by the log-ratio
# error of the bets of `density_bets`, of those on scale and center, and of other tests
_BET_ALARM, SCALE_ALARM, _OTHER_ALARM = 0.5 * FALSE_ALARM, 0.2 * FALSE_ALARM, 0.3 * FALSE_ALARM
_LEVEL = _OTHER_ALARM / (2 * _PARTS + 8)  # error of one of the other tests
_FEWEST_DIGITS = 2.0**-16  # coarsest grid, in units of the outputs, on which a density has outputs


class Underflow(ValueError):
    """Error for a log-density that is minus infinity because a number underflowed, not because an
    output is impossible.

    Such a density allows no conclusion.
    """


def rows_of(mechanism: Any, dataset: Any, size: int, rng: np.random.Generator) -> FloatArray:
    """Return the outputs of `size` runs as rows of numbers. Raise BadOracle if the runs of a call
    depend on each other.
    """
    if type(mechanism).__module__.startswith("dpwitness.") or size < _LEAST_ROWS:
        return rows_of_call(mechanism, dataset, size, rng)
    calls = [
        rows_of_call(mechanism, dataset, len(part), rng)
        for part in np.array_split(np.arange(size), _CALLS)
    ]
    first = [rows[:, 0] for rows in calls]
    values, counts = np.unique(np.concatenate(first), return_counts=True)
    common, middle = values[np.argmax(counts)], float(np.median(np.concatenate(first)))
    tables = [
        [[np.sum(x == common), np.sum(x != common)] for x in first],
        [[np.sum(x > middle), np.sum(x <= middle)] for x in first],
    ]
    # the cells are chosen from the same rows
    evidence = max(log_dependence(table) for table in tables) - math.log(size + 1)
    if evidence > -math.log(1e-10):  # probability of a false alarm of one test
        raise BadOracle(
            "sample must draw fresh noise for each run: the runs of a call are more alike "
            "than those of different calls"
        )
    return np.concatenate(calls)


def log_densities(mechanism: Any, rows: FloatArray, pair: Pair) -> tuple[FloatArray, FloatArray]:
    """Return (log p, log q) at each row. Raise BadOracle if a value cannot be a log-density."""
    return log_density_on(mechanism, rows, pair.d1, "D1"), log_density_on(
        mechanism, rows, pair.d0, "D0"
    )


def log_density_on(mechanism: Any, rows: FloatArray, dataset: Any, name: str) -> FloatArray:
    """Return the log-density on one dataset at each row; raise BadOracle if a value cannot be a
    log-density.
    """
    try:
        value = log_density_at(mechanism, rows, dataset)
    except Exception as error:
        raise BadOracle(f"log_density on {name} raises {type(error).__name__}: {error}") from error
    if value.shape != (len(rows),):
        raise BadOracle(f"log_density on {name} must have shape ({len(rows)},), got {value.shape}")
    if np.isnan(value).any():
        at = rows[int(np.flatnonzero(np.isnan(value))[0])]
        raise BadOracle(
            f"log_density on {name} is NaN at {np.array2string(at, precision=6, threshold=6)}"
        )
    return value


@dataclass(frozen=True, eq=False)
class CheckedOracle:
    """Outputs on which a density agreed with its sampler."""

    losses: tuple[FloatArray, FloatArray]  # ln p/q at the outputs of D1 and of D0
    sides: tuple[SampledSide, SampledSide]  # the outputs on D1 and on D0
    threshold: float  # ln of the capital at which the density would have been refused

    @property
    def largest(self) -> float:
        """Return the largest loss, in either order of the pair, at a drawn output."""
        return max(float(self.losses[0].max()), float(-self.losses[1].min()))

    def lonely(self) -> FloatArray:
        """Return the atoms among outputs that are one number.

        An atom is a number next to which, at the distance of a few floats, the density differs: on
        both sides, or on one side if the number was drawn twice.
        """
        found = [np.empty(0)]
        for side in self.sides:
            if side.rows.shape[1] == 1:
                rows, counts = np.unique(
                    side.rows[side.alone & np.isfinite(side.rows[:, 0])], axis=0, return_counts=True
                )
                if len(rows) == 0:
                    continue
                aside = 8 * np.spacing(np.abs(rows))
                with np.errstate(invalid="ignore"):
                    same = [
                        np.abs(side.density(rows + sign * aside) - side.density(rows)) <= 1e-2
                        for sign in (-1, 1)
                    ]
                found.append(
                    rows[np.where(counts > 1, ~same[0] | ~same[1], ~same[0] & ~same[1]), 0]
                )
        return np.unique(np.concatenate(found))


def check_oracle(mechanism: Any, pair: Pair, size: int, rng: np.random.Generator) -> CheckedOracle:
    """Raise BadOracle if runs and log-density contradict each other; a correct oracle is refused
    with probability at most 1e-6.
    """
    rows = [rows_of(mechanism, dataset, size, rng) for dataset in (pair.d1, pair.d0)]
    if rows[0].shape[1] != rows[1].shape[1]:
        raise BadOracle(
            f"outputs have {rows[0].shape[1]} numbers on D1 and {rows[1].shape[1]} on D0"
        )
    logs = [log_densities(mechanism, part, pair) for part in rows]
    with np.errstate(invalid="ignore"):
        losses = logs[0][0] - logs[0][1], logs[1][0] - logs[1][1]
    first = make_side(density_of(mechanism, pair.d1), rows[0], *logs[0], rng)
    second = make_side(density_of(mechanism, pair.d0), rows[1], *logs[1][::-1], rng)
    named = (("D1", first), ("D0", second))
    for name, side in named:
        _check_outputs_possible(name, side)
    _check_ratio(losses)
    for name, side in named:
        _check_total(name, side, rng)
        _check_repeated(name, side)
    log_capital, alternative = log_capital_won([first, second])
    if log_capital >= math.log(1 / _BET_ALARM):
        raise BadOracle(
            f'log_density disagrees with the sampler: a bet on the alternative "{alternative}" '
            f"wins a factor of e^{log_capital:.4g}, which must be near e^0 for a correct "
            "log_density"
        )
    _check_zeros(first, second, "D0")
    _check_zeros(second, first, "D1")
    return CheckedOracle(losses, (first, second), math.log(1 / _BET_ALARM))


def _check_outputs_possible(name: str, side: SampledSide) -> None:
    """Raise BadOracle if a drawn output has density zero, also after moves by a few units in the
    last place.
    """
    missed = np.flatnonzero(np.isneginf(side.own))
    for sign in (-1.0, 1.0):
        if len(missed):
            rows = side.rows[missed]
            missed = missed[np.isneginf(side.density(rows + sign * 4 * np.spacing(np.abs(rows))))]
    if len(missed):
        raise BadOracle(
            f"log_density on {name} is minus infinity at {len(missed)} of {len(side.rows)} "
            f"outputs sampled on {name}"
        )


def make_side(
    density: LogDensity,
    rows: FloatArray,
    own: FloatArray,
    other: FloatArray,
    rng: np.random.Generator,
) -> SampledSide:
    """Return the outputs with their densities, continuous columns and possible atoms.

    The density differs next to an atom, on one side of the atom or on both.
    """
    finite = np.all(np.isfinite(rows), axis=0)
    columns = finite & np.array([len(np.unique(column)) > 0.5 * len(column) for column in rows.T])
    jumps = alone = np.zeros(len(rows), dtype=bool)
    if columns.any():
        step = step_aside(rows, columns, rng)
        try:
            with np.errstate(all="ignore"):
                same = [np.abs(density(rows + s * step) - own) <= 1e-2 for s in (-1.0, 1.0)]
        except Exception:  # log_density may fail at impossible outputs
            return SampledSide(rows, own, other, density, np.zeros_like(columns), jumps, alone)
        jumps = ~(same[0] & same[1])
        _, at, counts = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
        alone = jumps | (counts[at.ravel()] > 1)
    return SampledSide(rows, own, other, density, columns, jumps, alone)


def _check_repeated(name: str, side: SampledSide) -> None:
    """Raise BadOracle if an output repeats too often for a density, and not as often as an atom
    with this mass.

    Only an output next to which the density is the same can be mistaken for an atom. The first half
    of the outputs names the output, the second half is counted.
    """
    half = side.part(slice(len(side.rows) // 2))
    outputs, at, counts = np.unique(half.rows, axis=0, return_index=True, return_counts=True)
    counts = np.where(half.jumps[at], 0, counts)
    most = int(np.argmax(counts))
    if not side.continuous.all() or counts[most] < 2:
        return
    rest = side.rows[len(half.rows) :]
    count = int(np.count_nonzero(np.all(rest == outputs[most], axis=1)))
    log_mass = float(half.own[at[most]])
    unit = np.abs(outputs[most]) + np.subtract(*np.percentile(half.rows, [75, 25], axis=0))
    chances = [
        math.exp(min(log_mass + shift, 0.0)) for shift in (np.log(_FEWEST_DIGITS * unit).sum(), 0.0)
    ]
    too_many = [bdtrc(count - 1, len(rest), chance) if count else 1.0 for chance in chances]
    if too_many[0] <= _LEVEL and min(too_many[1], bdtr(count, len(rest), chances[1])) <= _LEVEL / 2:
        raise BadOracle(
            f"log_density on {name} is that of a continuous output at "
            f"{np.array2string(outputs[most], precision=6, threshold=6)}, an output that "
            f"{count} of {len(rest)} runs return"
        )


def _check_zeros(side: SampledSide, other: SampledSide, name: str) -> None:
    """Raise Underflow if the other density, which is zero at outputs of this side, becomes zero
    only by underflow.
    """
    zero = np.flatnonzero(np.isneginf(side.other))[:4]
    if not len(zero) or not side.continuous.any() or not np.isfinite(other.own).any():
        return
    start = np.repeat(other.rows[[int(np.argmax(other.own))]], len(zero), axis=0)
    end, last = side.rows[zero], np.full(len(zero), np.max(other.own))
    for _ in range(80):
        middle = np.where(side.continuous, 0.5 * (start + end), start)
        with np.errstate(all="ignore"):
            value = other.density(middle)
        there = np.isfinite(value)
        last = np.where(there, value, last)
        start, end = np.where(there[:, None], middle, start), np.where(there[:, None], end, middle)
    # smaller log-densities may be logarithms of numbers that underflow
    if np.any(last < -690.0):
        raise Underflow(
            f"log_density on {name} falls to {last.min():.4g} and is minus infinity from "
            "there on: give it without underflow"
        )


def contradiction_with_law(law: EnclosedLaw, checked: CheckedOracle) -> str | None:
    """Return a contradiction between a computed law of the loss and the checked outputs, or None.

    Tests the law's total mass, its largest loss, and its distribution.
    """
    for name, mass, unseen in (
        ("D1", law.lower.p, law.upper.unseen_p),
        ("D0", law.lower.q, law.upper.unseen_q),
    ):
        total = float(mass.sum())
        mass_error = abs(unseen - max(0.0, 1 - total))
        if (
            total > 1 + _MASS_TOLERANCE + 2 * mass_error
            or total < 1 - _MASS_TOLERANCE - 2 * mass_error
        ):
            return (
                f"log_density on {name} does not integrate to one but to {total:.6g} ({law.route})"
            )
    top = max(law.upper.supremum, law.upper.swapped().supremum)
    if checked.largest > top + 1e-3 * (1 + abs(top)):
        return (
            f"an output with loss {checked.largest:.6g} was drawn, beyond the {top:.6g} that the "
            f"{law.route} shows"
        )
    return _against_losses(law, checked.losses, _OTHER_ALARM / 4)


def _against_losses(
    law: EnclosedLaw, losses: tuple[FloatArray, FloatArray], level: float
) -> str | None:
    """Return a contradiction between the sampled losses and their computed law on either dataset,
    or None.

    Uses the inequality of Dvoretzky, Kiefer and Wolfowitz (Massart 1990).
    """
    size = len(losses[0])
    margin = math.sqrt(math.log(2 / level) / (2 * size))
    loss = law.lower.loss
    finite = loss[np.isfinite(loss)]
    slack = 1e-3 * (float(np.ptp(finite)) if finite.size else 0.0) + 1e-6
    for name, sampled, side in (("D1", losses[0], law.lower.p), ("D0", losses[1], law.lower.q)):
        unseen = max(law.upper.unseen_p, law.upper.unseen_q)
        cumulative = np.append(0.0, np.cumsum(side))
        ordered = np.sort(sampled)
        # compare at and just below each sampled loss, with the computed law slightly to the right
        # and to the left
        right = cumulative[np.searchsorted(loss, ordered + slack, side="right")]
        left = cumulative[np.searchsorted(loss, ordered - slack, side="left")]
        rank = np.arange(1, size + 1) / size
        gap = max(float(np.max(rank - right)), float(np.max(left - (rank - 1 / size)))) - unseen
        if gap > margin:
            return (
                f"the computed law of the loss is {gap:.3g} away from the sampled one on {name}, "
                f"{margin:.3g} is allowed"
            )
    return None


def _means_differ(first: FloatArray, second: FloatArray, level: float) -> bool:
    """Return whether two samples in [0, 1] have different means, by empirical Bernstein limits
    (Audibert, Munos and Szepesvari 2009).
    """
    if min(len(first), len(second)) < 2:
        return False
    log = math.log(6 / level)
    radius = sum(
        math.sqrt(2 * float(x.var()) * log / len(x)) + 3 * log / len(x) for x in (first, second)
    )
    return abs(float(first.mean()) - float(second.mean())) > radius


def _check_ratio(losses: tuple[FloatArray, FloatArray]) -> None:
    """Raise BadOracle unless E_P[q / (p + q); part] = E_Q[p / (p + q); part], for parts of the
    output space by L, and for all of it.
    """
    shares = expit(-losses[0]), expit(losses[1])
    finite = np.concatenate(losses)
    finite = finite[np.isfinite(finite)]
    levels = np.linspace(0, 1, _PARTS + 1)[1:-1]
    cuts = np.unique(np.round(np.quantile(finite, levels), 9)) if finite.size else np.empty(0)
    bins = [np.searchsorted(cuts, np.round(loss, 9)) for loss in losses]
    for part in range(-1, len(cuts) + 1):
        first, second = (
            share * ((b == part) | (part < 0)) for share, b in zip(shares, bins, strict=True)
        )
        if _means_differ(first, second, _LEVEL):
            with np.errstate(over="ignore"):
                ratio = float(np.exp(-losses[0]).mean())
            raise BadOracle(
                f"log_density disagrees with the sampler: q/p averages {ratio:.4g} on D1, it "
                f"may average at most 1; {float(first.mean()):.4g} must equal "
                f"{float(second.mean()):.4g} (bridge identity)"
            )


def _check_total(name: str, side: SampledSide, rng: np.random.Generator) -> None:
    """Raise BadOracle if the density does not integrate to one.

    Uses the bridge identity with a normal law that is fitted to the first fifth of the outputs, and
    tested on the others.
    """
    cut, k = len(side.rows) // 5, side.rows.shape[1]
    fit, rest = side.rows[:cut], side.rows[cut:]
    if (
        k > 200
        or not np.all(np.isfinite(side.rows))
        or any(len(np.unique(column)) < cut // 2 for column in fit.T)
        or not fills_space(side.density, fit, np.ones(k, dtype=bool), rng)
    ):
        return
    middle = fit.mean(axis=0)
    try:
        root = np.linalg.cholesky(np.atleast_2d(np.cov(fit.T)))
    except np.linalg.LinAlgError:
        return
    volume = float(np.log(np.diag(root)).sum()) + 0.5 * k * math.log(2 * math.pi)
    z = rng.standard_normal((len(rest), k))
    try:
        log_p = side.density(middle + z @ root.T)
    except Exception:  # log_density may fail at impossible outputs, which allow no conclusion
        return
    if np.isnan(log_p).any():
        raise BadOracle(f"log_density on {name} is NaN at a point near its outputs")
    own_z = np.linalg.solve(root, (rest - middle).T).T
    own_share = expit(-0.5 * (own_z**2).sum(axis=1) - volume - side.own[cut:])
    normal_share = expit(log_p + 0.5 * (z**2).sum(axis=1) + volume)
    if _means_differ(own_share, normal_share, _LEVEL):
        value = float(normal_share.mean()) / max(float(own_share.mean()), 1e-300)
        raise BadOracle(
            f"log_density on {name} does not integrate to one: about {value:.3g} by bridge "
            "sampling, or it is not the sampler's"
        )
