"""What a run shows, from below and from above: the intervals by which two runs are compared.

A certified bound is one-sided: of two runs of one mechanism either may certify more. What can be compared is what the runs' events show.
The counts of an event that was fixed before them are binomial, so the parameter that it shows,

    psi = the smallest parameter whose curve lets a rule be right with probability theta in a share s of the rounds,

lies between the values at the exact lower limits of theta and s and at the exact upper ones (psi rises with both, see `certificate`). Each
end misses psi with probability at most (1 - confidence) / 4, all looks at the counts paid for. Two events that show the same have disjoint
intervals only if one of four ends has missed: with probability at most 1 - confidence, of the run that has less of it.  []

Two runs may have learned different events, of which one shows more than the other: then disjoint intervals say that *what was found* has
changed, and a remark says that the event differs. Events of values are learned close to the best one, which moves what they show far less
than the intervals are wide: of 3600 pairs of runs of twelve mechanisms of the zoo, 4000 trials each, none was apart on one pair of
datasets. 3% were on different pairs, and 16% of those of one mechanism: a pilot on few runs had missed the worst pair. So numbers of
different pairs are never said to have moved, but to be higher or lower elsewhere; so are low bits where the events differ, for a class of
them is either met or missed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq

from dpwitness.auditors.results.verdicts import Verdict
from dpwitness.auditors.statistics.certificate import SHARE_FOR_FREQUENCY, Tally, cp_lower, parameter_shown
from dpwitness.mechanisms.terms.notions import Claim
from dpwitness.mechanisms.terms.reading import Json
from dpwitness.reports.words.facts import claim_of
from dpwitness.reports.words.summary import error_of
from dpwitness.reports.words.wording import figure, number

ENDS = 4  # of two intervals: what each may miss with adds up to 1 - confidence
LOOKS = 8  # at the counts of an event, at any of which an audit may stop
_ROUNDING = 1e-7  # of a number that comes without chance: two machines add differently


@dataclass(frozen=True, slots=True)
class Guesses:
    """The counts of an event, the claim whose parameter they show, and the error of each end."""

    claim: Claim
    correct: float
    wrong: float
    rounds: float
    directions: int
    error: float

    def limits(self, correct: float | None = None) -> tuple[float, float]:
        """Exact limits of the parameter that the event shows, as if `correct` of the guesses had been right."""
        c, made = self.correct if correct is None else correct, self.correct + self.wrong
        if made == 0:
            return 0.0, math.inf
        gamma = 0.0 if self.claim.is_pure else self.error * SHARE_FOR_FREQUENCY
        theta = cp_lower(c, made, self.error - gamma), 1.0 - cp_lower(made - c, made, self.error - gamma)
        n, one = self.rounds, np.ones(())
        share = (one, one) if gamma == 0 else (cp_lower(made, n, gamma), 1.0 - cp_lower(n - made, n, gamma))
        low, high = (float(parameter_shown(self.claim, s, t, self.directions)) for s, t in zip(share, theta, strict=True))
        return low, high

    def upper_of(self, bound: float) -> float:
        """The upper limit of a run with as many guesses whose lower limit is `bound`; infinite where all would have to be right."""
        made = self.correct + self.wrong

        def excess(correct: float) -> float:
            return self.limits(correct)[0] - bound

        bound = max(bound, 1e-9)
        if made == 0 or excess(made) <= 0:
            return math.inf
        return self.limits(float(brentq(excess, 0.0, made, xtol=1e-6)))[1]


@dataclass(frozen=True, slots=True)
class Interval:
    """What a result shows of one number."""

    symbol: str
    shown: float  # as reports tell it: the certified bound, the ratio, the estimate
    low: float
    high: float
    pair: Any = None
    event: Any = None
    particular: bool = False  # to its event: of others it says nothing
    guesses: Guesses | None = None

    def elsewhere(self, other: Interval) -> bool:
        """Whether it was measured on another pair of datasets, or is particular to another event."""
        pairs = [it.pair and {key: value for key, value in it.pair.items() if key != "why"} for it in (self, other)]
        return pairs[0] != pairs[1] or (self.particular and self.event != other.event)

    def above(self, other: Interval) -> bool:
        """Whether all of it lies above all of the other."""
        return self.low > other.high + _ROUNDING * abs(other.high)

    def has_grown(self, bound: float) -> bool:
        """Whether it lies above that of a run of this size that came to `bound`. Without an upper end nothing can be told: no."""
        high = self.guesses.upper_of(bound) if self.guesses else bound + (self.high - self.low)
        return self.low > high + _ROUNDING * abs(high)

    def __str__(self) -> str:
        return f"{figure(self.shown)} [{figure(self.low)}, {figure(self.high)}]".replace("infinity", "inf")


VALUE, BITS, ENCLOSURE = "value", "low bits", "enclosure"


def intervals(result: Json) -> dict[str, Interval]:
    """The intervals of a result by what they are of: its value, its low bits, the enclosure that a suite puts beside a bound."""
    return {} if result.get("verdict") == Verdict.ERROR.value else dict(_intervals(result))


def _intervals(result: Json) -> Iterator[tuple[str, Interval]]:
    kind, pair, claim = result.get("kind"), result.get("pair"), claim_of(result)
    symbol = str(result.get("parameter", "epsilon"))
    if kind == "sensitivity":
        yield VALUE, _read(result, "ratio", ("ratio_lower", "ratio_lower", "ratio_upper"), pair)
    elif kind == "utility":
        yield VALUE, _read(result, "error", ("estimate", "lower", "upper"))
    elif kind == "white box":
        yield VALUE, _read(result, symbol, ("parameter_lower", "parameter_lower", "parameter_upper"), pair)
    elif kind == "trace" and result.get("audit"):
        yield from ((what, found) for what, found in intervals(result["audit"]).items() if what == VALUE)
    elif claim is not None and result.get("tally"):
        error = number(result.get("alpha")) or error_of(number(result.get("confidence")) or 0.99)
        yield VALUE, _counted(claim, result["tally"], error / LOOKS, result.get("parameter_lower"), result)
    bits = result.get("bit_level") or {}
    if claim is not None and bits.get("tally"):
        error = error_of(number(result.get("confidence")) or 0.99)
        yield BITS, _counted(claim.at_delta, bits["tally"], error, bits.get("epsilon_lower"), bits, particular=True)
    if "parameter_lower" in (result.get("enclosure") or {}):
        yield ENCLOSURE, _read(result["enclosure"], symbol, ("parameter_lower", "parameter_lower", "parameter_upper"), pair)


def _read(result: Json, symbol: str, names: tuple[str, str, str], pair: Any = None) -> Interval:
    found = (number(result.get(name)) for name in names)
    shown, low, high = (math.nan if value is None else value for value in found)
    return Interval(symbol, shown, low, high, pair)


def _counted(claim: Claim, tally: Json, error: float, shown: Any, of: Json, *, particular: bool = False) -> Interval:
    counts = Tally(**tally)
    guesses = Guesses(claim, counts.correct, counts.wrong, counts.rounds, counts.directions, error / ENDS)
    least = number(shown)
    return Interval(
        claim.symbol, math.nan if least is None else least, *guesses.limits(), of.get("pair"), of.get("event"), particular, guesses
    )
