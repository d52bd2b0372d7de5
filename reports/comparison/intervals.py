"""Two-sided confidence intervals of the numbers of a run, by which two runs are compared.

A certified bound is one-sided: of two runs of one mechanism either may certify more. So the
comparison uses the parameter that the event of a run shows. The event is fixed before its counts,
so the counts are binomial. The parameter that the event shows,

    psi = the smallest parameter whose curve lets a rule be right with probability theta in a share
    s of the rounds,

lies between its values at the exact lower limits of theta and s and at the exact upper limits (psi
increases in both, see `certificate`). Each endpoint misses psi with probability at most (1 -
confidence) / 4, corrected for all interim looks at the counts. Two events with the same psi have
disjoint intervals only if one of four endpoints misses. The probability of this is at most 1 -
confidence, with the smaller confidence of the two runs.  []

Two runs may learn different events with different psi. Then disjoint intervals mean that the
*learned event's* number changed, and a remark says that the event differs. Events of values are
learned close to the best event, and the differences are much smaller than the intervals. Of 3600
pairs of runs of twelve mechanisms of the zoo, 4000 trials each, none had disjoint intervals on one
pair of datasets. In 3% the runs used different pairs of datasets (16% for one mechanism), because a
pilot on few runs missed the worst pair. So numbers of different pairs are never reported as risen
or fallen, but as higher or lower elsewhere. The same holds for low bits with different events,
because an event either contains a class of low bits or does not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpwitness.auditors.statistics.certificate import (
    Tally,
    clopper_pearson_lower,
    frequency_error,
    parameter_from_rates,
)
from dpwitness.auditors.witnesses.facts import claim_of
from dpwitness.auditors.witnesses.kinds import kind_of
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.core.claims import Claim
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.wording import figure, number
from dpwitness.reports.phrasing.summary import error_of

ENDS = 4  # endpoints of two intervals; their error probabilities add up to 1 - confidence
LOOKS = 8  # interim looks at the counts of an event; an audit may stop at any of them
# relative tolerance for deterministic numbers, whose rounding differs between machines
_ROUNDING = 1e-7


def _clopper_pearson(successes: float, trials: float, error: float) -> tuple[Any, Any]:
    """Return exact confidence limits of a share, each wrong with probability at most `error`."""
    return clopper_pearson_lower(successes, trials, error), 1.0 - clopper_pearson_lower(
        trials - successes, trials, error
    )


@dataclass(frozen=True, slots=True)
class Guesses:
    """Counts of an event's guesses, the claim whose parameter they estimate, and the error
    probability of each endpoint.
    """

    claim: Claim
    correct: float
    wrong: float
    rounds: float
    directions: int
    error: float

    def limits(self, correct: float | None = None) -> tuple[float, float]:
        """Return exact confidence limits of the event's parameter; `correct` replaces the number of
        correct guesses.
        """
        c, guesses_made = self.correct if correct is None else correct, self.correct + self.wrong
        if guesses_made == 0:
            return 0.0, math.inf
        gamma = float(frequency_error(self.claim, self.error))
        theta = _clopper_pearson(c, guesses_made, self.error - gamma)
        share = (
            _clopper_pearson(guesses_made, self.rounds, gamma)
            if gamma
            else (np.ones(()), np.ones(()))
        )
        low, high = (
            float(parameter_from_rates(self.claim, s, t, self.directions))
            for s, t in zip(share, theta, strict=True)
        )
        return low, high

    def upper_limit_for(self, bound: float) -> float:
        """Return the upper limit of a run with the same number of guesses whose lower limit is
        `bound`; infinite if no such run exists.
        """
        # takes a tenth of a second to load, and only comparisons use it
        from scipy.optimize import brentq

        guesses_made = self.correct + self.wrong

        def excess(correct: float) -> float:
            return self.limits(correct)[0] - bound

        bound = max(bound, 1e-9)
        if guesses_made == 0 or excess(guesses_made) <= 0:
            return math.inf
        return self.limits(float(brentq(excess, 0.0, guesses_made, xtol=1e-6)))[1]


@dataclass(frozen=True, slots=True)
class Interval:
    """Confidence interval of one number of a result, with the pair and the event on which the
    number was measured.
    """

    symbol: str
    reported: float  # the number that reports print: certified bound, ratio or estimate
    low: float
    high: float
    pair: Any = None
    event: Any = None
    particular: bool = False  # whether the number is comparable only with numbers of the same event
    guesses: Guesses | None = None

    def elsewhere(self, other: Interval) -> bool:
        """Return whether the two numbers are from different pairs of datasets, or are particular to
        different events.
        """
        pairs = [
            it.pair and {key: value for key, value in it.pair.items() if key != "why"}
            for it in (self, other)
        ]
        return pairs[0] != pairs[1] or (self.particular and self.event != other.event)

    def above(self, other: Interval) -> bool:
        """Return whether this interval lies completely above the other interval."""
        return self.low > other.high + _ROUNDING * abs(other.high)

    def exceeds_bound(self, bound: float) -> bool:
        """Return whether this interval lies above the interval of a run of the same size with the
        lower limit `bound`.

        False if the upper limit of that run is infinite.
        """
        high = (
            self.guesses.upper_limit_for(bound) if self.guesses else bound + (self.high - self.low)
        )
        return self.low > high + _ROUNDING * abs(high)

    def __str__(self) -> str:
        return f"{figure(self.reported)} [{figure(self.low)}, {figure(self.high)}]".replace(
            "infinity", "inf"
        )


VALUE, BITS, ENCLOSURE = "value", "low bits", "enclosure"


def intervals(result: Json) -> dict[str, Interval]:
    """Return the intervals of a result by `VALUE`, `BITS` and `ENCLOSURE`: its main number, its low
    bits, and a suite's enclosure.
    """
    return {} if result.get("verdict") == Verdict.ERROR.value else dict(_intervals(result))


_ENCLOSURE = ("parameter_lower", "parameter_lower", "parameter_upper")


def _intervals(result: Json) -> Iterator[tuple[str, Interval]]:
    pair, claim = result.get("pair"), claim_of(result)
    symbol = str(result.get("parameter", "epsilon"))
    measure = kind_of(result).measure
    if measure is not None:
        what = measure.fill(measure.symbol, result)
        yield VALUE, _interval_of_fields(result, what, measure[1:4], pair)
    elif "parameter_upper" in result:
        yield VALUE, _interval_of_fields(result, symbol, _ENCLOSURE, pair)
    elif result.get("audit"):
        yield from (
            (what, found) for what, found in intervals(result["audit"]).items() if what == VALUE
        )
    elif claim is not None and result.get("tally"):
        error = number(result.get("alpha")) or error_of(number(result.get("confidence")) or 0.99)
        yield (
            VALUE,
            _interval_of_counts(
                claim, result["tally"], error / LOOKS, result.get("parameter_lower"), result
            ),
        )
    bits = result.get("bit_level") or {}
    if claim is not None and bits.get("tally"):
        error = error_of(number(result.get("confidence")) or 0.99)
        yield (
            BITS,
            _interval_of_counts(
                claim.at_delta,
                bits["tally"],
                error,
                bits.get("epsilon_lower"),
                bits,
                particular=True,
            ),
        )
    if "parameter_lower" in (result.get("enclosure") or {}):
        yield ENCLOSURE, _interval_of_fields(result["enclosure"], symbol, _ENCLOSURE, pair)


def _interval_of_fields(
    result: Json, symbol: str, names: Sequence[str], pair: Any = None
) -> Interval:
    found = (number(result.get(name)) for name in names)
    shown, low, high = (math.nan if value is None else value for value in found)
    return Interval(symbol, shown, low, high, pair)


def _interval_of_counts(
    claim: Claim, tally: Json, error: float, shown: Any, of: Json, *, particular: bool = False
) -> Interval:
    counts = Tally(**tally)
    guesses = Guesses(
        claim, counts.correct, counts.wrong, counts.rounds, counts.directions, error / ENDS
    )
    least = number(shown)
    return Interval(
        claim.symbol,
        math.nan if least is None else least,
        *guesses.limits(),
        of.get("pair"),
        of.get("event"),
        particular,
        guesses,
    )
