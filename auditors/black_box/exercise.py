"""Does a pair exercise the mechanism? A pair on which both datasets give the same law of outputs says nothing about the claim.

Two kinds of evidence are looked at: the guesses of the event that was tested (right half of the time where the laws are equal), and a
Kolmogorov-Smirnov test of each column of all outputs that pilots and training have seen, on every pair. Each has half of `LEVEL`.

Equal laws are reported only where the audit had power: a mechanism with a tenth of the claim (`SHARE`) would have shown a difference in the
test with probability `POWER`, and on each of several pairs one with all of the claim in its pilot. An audit with too few runs for that
remains NOT_REFUTED: its bound and its smallest detectable violation say how little it knows.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import bdtr, bdtrc, kolmogorov, ndtri

from dpwitness.auditors.events.outputs import Outputs, concatenate
from dpwitness.auditors.loss.shapes import law_with
from dpwitness.auditors.pairs.catalogue import pairs_for
from dpwitness.auditors.running.engine import MechanismFailed, outputs
from dpwitness.auditors.statistics.combination import Part, combined_p_value
from dpwitness.mechanisms.domains import Domain
from dpwitness.mechanisms.terms.notions import Claim, PureDP
from dpwitness.mechanisms.terms.validation import InvalidArgument

if TYPE_CHECKING:
    from dpwitness.auditors.black_box.course import Course

LEVEL = 0.02  # probability that equal laws are taken for different ones
POWER = 0.9
SHARE = 0.1  # of the claim
LEARNING = 0.4  # standard errors that learning an event costs
_ROWS, _COLUMNS, _VALUES = 2**15, 32, 64  # of outputs that are compared; different values of which each is tested alone
_LARGE = 0.1  # total variation distance that every claim of interest allows: of two laws closer than that, a large claim is no measure
_SAME = PureDP(1e-12)
_WIDER = (10.0, 100.0, 10_000.0)
_WIDER_PAIRS, _WIDER_ROUNDS, _WIDER_LEVEL = 6, 400, 1e-6
_WIDER_PHASE = 1_000_000  # of the stages' keys, beyond all extensions

ADVICE = "try a pair whose values change the result, the pairs of a domain (--domain), or a search (--search)"


@dataclass(slots=True)
class Seen:
    """What pilots and training have seen: batches compared, the smallest p-value, and the rounds of the smallest batch."""

    batches: int = 0
    p_value: float = 1.0
    fewest: int = 0

    def add(self, one: Outputs, zero: Outputs) -> None:
        """Compare a batch of outputs on D1 with one on D0."""
        self.batches += 1
        self.p_value = min(self.p_value, difference(one, zero))
        self.fewest = min(self.fewest or 2**62, len(one) + len(zero))


def difference(one: Outputs, zero: Outputs) -> float:
    """Return a p-value of "both batches have the same law".

    Each column is tested by Kolmogorov-Smirnov, as is its distance from the median; where values are few, each value by its counts.
    """
    if min(len(one), len(zero)) < 8:
        return 1.0
    both = concatenate([one.take(np.arange(min(len(one), _ROWS))), zero.take(np.arange(min(len(zero), _ROWS)))])
    n, m = min(len(one), _ROWS), min(len(zero), _ROWS)
    found, columns = 1.0, both.matrix().T[: _COLUMNS + 1]
    for number, column in enumerate(columns):
        with np.errstate(invalid="ignore"):
            folded = [] if number == 0 else [np.abs(column - np.nanmedian(column))] if np.isfinite(column).any() else []
        for values in (column, *folded):
            rank = np.unique(values, return_inverse=True)[1].ravel()
            counts = [np.bincount(side, minlength=rank.max() + 1) for side in (rank[:n], rank[n:])]
            gap = float(np.max(np.abs(np.cumsum(counts[0]) / n - np.cumsum(counts[1]) / m)))
            found = min(found, float(kolmogorov(gap * math.sqrt(n * m / (n + m)))))
            if len(counts[0]) <= _VALUES:  # a rare value moves no distribution function
                each, total = counts[0], counts[0] + counts[1]
                tails = np.minimum(bdtr(each, total, n / (n + m)), bdtrc(each - 1.0, total, n / (n + m)))
                found = min(found, 2 * len(each) * float(np.min(tails)))
    return min(1.0, found * 3 * len(columns))


def exercised(claim: Claim, parts: Sequence[Part], seen: Seen, pairs: int) -> tuple[bool | None, str]:
    """Return whether outputs on D0 and D1 differ, None if the audit lacks the power to say; and a note if they do not."""
    rounds = sum(part.tally.rounds for part in parts)
    if not rounds or not seen.batches or claim.parameter <= 0:
        return None, ""
    if combined_p_value(_SAME, parts) < LEVEL / 2 or seen.p_value * seen.batches < LEVEL / 2:
        return True, ""
    deviations = float(ndtri(POWER)) + LEARNING
    if _distance(claim, SHARE) < (deviations - float(ndtri(LEVEL / 2))) / math.sqrt(rounds):
        return None, ""
    if pairs > 1 and _distance(claim, 1.0) < (deviations + float(-ndtri(0.5 / pairs))) / math.sqrt(seen.fewest):
        return None, ""
    which = "this pair" if pairs == 1 else f"these {pairs} pairs"
    would = f"a mechanism with {claim.symbol} = {claim.parameter * SHARE:.3g}, a tenth of the claim, would have shown a difference"
    same = f"its outputs on D0 and D1 look the same, although {would} with probability {POWER:g}"
    return False, f"{which} may not exercise the mechanism: {same}; {ADVICE}"


def _distance(claim: Claim, share: float) -> float:
    """Total variation distance of Laplace noise (pure DP) or Gaussian noise with this share of the claim's parameter; 0 if unknown."""
    try:
        law = law_with("laplace" if claim.is_pure else "gaussian", claim, claim.parameter * share)
    except (InvalidArgument, ValueError):
        return 0.0
    return min(_LARGE if share < 1 else 1.0, float(np.sum(np.maximum(law.p - law.q, 0.0))))


def look_wider(state: Course, domain: Domain) -> None:
    """Note which wider bounds of a domain change the outputs, where none of its own pairs does. Such pairs refute nothing."""
    tested = state.tested[-1]
    if exercised(state.asked.claim, tested.parts, state.seen, max(1, len(state.pairs)))[0] is not False:
        return
    runs = 0
    for wide, told in _wider(domain):
        for number, pair in enumerate(pairs_for(wide)[:_WIDER_PAIRS]):
            stage = state.stage(pair, _WIDER_PHASE, number, _WIDER_ROUNDS, _WIDER_ROUNDS)
            runs += _WIDER_ROUNDS
            try:
                sides = [side for found in outputs(stage, state.asked.executor) for side in found.sides]
            except (MechanismFailed, InvalidArgument):
                continue
            if any(one is not None and zero is not None and difference(one, zero) < _WIDER_LEVEL for one, zero in sides):
                state.note(
                    f"no pair of {_shown(domain)} changes the outputs; {told} do ({runs:,} more runs): declare the domain as "
                    f"{_shown(wide)} if such data can occur; pairs outside of the declared domain cannot refute the claim"
                )
                return


def _wider(domain: Domain) -> Iterator[tuple[Domain, str]]:
    """Domains like this one with wider bounds, and what they hold in words."""
    given: Any = domain
    low, high = getattr(domain, "low", None), getattr(domain, "high", None)
    features = getattr(domain, "features", None)
    for factor in _WIDER:
        for down in (False, True):
            if isinstance(low, int | float) and isinstance(high, int | float) and dataclasses.is_dataclass(domain):
                ends = _widened(low, high, factor, down)
                changes: list[dict[str, Any]] = [{"low": ends[0], "high": ends[1]}]
                changes += [changes[0] | {"integer": True}] if getattr(domain, "integer", None) is False else []
                told = f"values down to {ends[0]:g}" if down else f"values up to {ends[1]:g}"
            elif features and dataclasses.is_dataclass(domain):
                changes = [{"features": tuple(_widened(*ends, factor, down) for ends in features)}]
                told = f"features with bounds {factor:g} times as wide"
            else:
                return
            for change in changes:
                try:
                    wide = dataclasses.replace(given, **change)
                except (InvalidArgument, TypeError, ValueError):
                    continue
                yield wide, told + (" (whole numbers)" if change.get("integer") else "")


def _widened(low: float, high: float, factor: float, down: bool) -> tuple[float, float]:
    more = (high - low) * factor
    ends = (low - more if down else low, high if down else low + more)
    whole = isinstance(low, int) and isinstance(high, int)
    return (int(ends[0]), int(ends[1])) if whole else ends


def _shown(domain: Domain) -> str:
    """The domain with its bounds, without what is left at its default."""
    given: Any = domain
    values = {field.name: (getattr(domain, field.name), field.default) for field in dataclasses.fields(given)}
    told = [f"{name}={value!r}" for name, (value, default) in values.items() if value != default or name in ("low", "high")]
    return f"{type(domain).__name__}({', '.join(told)})"
