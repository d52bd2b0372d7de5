"""Two-sided confidence intervals of the numbers of a run, by which two runs are compared; and accepted
findings.

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

Accepted findings: reviewed violations that do not fail a run until a date, and stay in every
report with their reason.

The file is TOML with one entry per accepted finding::

    [[accepted]]
    name = "laplace-0.9"              # or target = "mine.py:noisy_sum", or both
    claim = "pure:1"
    relation = "replace-one"          # optional: any
    rule = "VALUE"                    # optional: any
    reason = "noise is too small by a tenth; the new release draws more"
    expires = 2027-01-31              # last day of the acceptance
    bound = 1.05                      # optional: certified bound; a significantly larger violation is not accepted
"""  # noqa: E501

from __future__ import annotations

import datetime
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dpwitness.auditors.statistics.certificate import (
    Tally,
    clopper_pearson_lower,
    frequency_error,
    parameter_from_rates,
)
from dpwitness.auditors.witnesses.kinds import claim_of, kind_of
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.auditors.witnesses.witness_reader import relation_rule
from dpwitness.core import Claim, InvalidArgument, parse_claim
from dpwitness.core.values.json_reader import (
    Json,
    anything,
    checked,
    listing,
    one_of,
    printable,
    read_bytes,
    record,
    text,
)
from dpwitness.core.values.json_reader import number as number_rule
from dpwitness.core.values.validation import did_you_mean
from dpwitness.core.values.wording import figure, number
from dpwitness.reports.document import errors_in
from dpwitness.reports.summary import RULES, error_of, rules_of

ENDS = 4  # endpoints of two intervals; their error probabilities add up to 1 - confidence
LOOKS = 8  # interim looks at the counts of an event; an audit may stop at any of them
# relative tolerance for deterministic numbers, whose rounding differs between machines
_ROUNDING = 1e-7


def _clopper_pearson(successes: float, trials: float, error: float) -> tuple[Any, Any]:
    """Return exact confidence limits of a share, each wrong with probability at most `error`."""
    upper_complement = clopper_pearson_lower(trials - successes, trials, error)
    return clopper_pearson_lower(successes, trials, error), 1.0 - upper_complement


@dataclass(frozen=True, slots=True)
class GuessCounts:
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
        guesses_made = self.correct + self.wrong
        if guesses_made == 0:
            return 0.0, math.inf
        gamma = float(frequency_error(self.claim, self.error))
        right = self.correct if correct is None else correct
        theta = _clopper_pearson(right, guesses_made, self.error - gamma)
        share = _clopper_pearson(guesses_made, self.rounds, gamma) if gamma else (1.0, 1.0)
        low, high = (
            float(parameter_from_rates(self.claim, np.asarray(s), t, self.directions))
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
    guesses: GuessCounts | None = None

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
    pair, claim, measure = result.get("pair"), claim_of(result), kind_of(result).measure
    symbol = str(result.get("parameter", "epsilon"))
    usual = error_of(number(result.get("confidence")) or 0.99)
    if measure is not None:
        what = measure.fill(measure.symbol, result)
        yield VALUE, _interval_of_fields(result, what, measure[1:4], pair)
    elif "parameter_upper" in result:
        yield VALUE, _interval_of_fields(result, symbol, _ENCLOSURE, pair)
    elif result.get("audit"):
        audited = intervals(result["audit"])
        yield from ((what, audited[what]) for what in audited if what == VALUE)
    elif claim is not None and result.get("tally"):
        error = (number(result.get("alpha")) or usual) / LOOKS
        bound = number(result.get("parameter_lower"))
        yield VALUE, _interval_of_counts(claim, result, error, bound)
    bits, enclosed = result.get("bit_level") or {}, result.get("enclosure") or {}
    if claim is not None and bits.get("tally"):
        found = _interval_of_counts(claim.at_delta, bits, usual, number(bits.get("epsilon_lower")))
        yield BITS, replace(found, particular=True)
    if "parameter_lower" in enclosed:
        yield ENCLOSURE, _interval_of_fields(enclosed, symbol, _ENCLOSURE, pair)


def _interval_of_fields(
    result: Json, symbol: str, names: Sequence[str], pair: Any = None
) -> Interval:
    found = (number(result.get(name)) for name in names)
    shown, low, high = (math.nan if value is None else value for value in found)
    return Interval(symbol, shown, low, high, pair)


def _interval_of_counts(claim: Claim, counted: Json, error: float, bound: float | None) -> Interval:
    counts = Tally(**counted["tally"])
    guesses = GuessCounts(
        claim, counts.correct, counts.wrong, counts.rounds, counts.directions, error / ENDS
    )
    low, high = guesses.limits()
    return Interval(
        claim.symbol,
        math.nan if bound is None else bound,
        low,
        high,
        counted.get("pair"),
        counted.get("event"),
        guesses=guesses,
    )


_MAX_BYTES = 2**20  # bytes of a file


_REQUIRED = {
    "claim": text(2000, empty=False),
    "reason": checked(
        lambda value: isinstance(value, str) and 0 < len(value.strip()) <= 2000,
        "be a non-empty text of at most 2000 characters",
    ),
    "expires": checked(lambda value: type(value) is datetime.date, "be a date such as 2027-01-31"),
}
_OPTIONAL = {
    "name": text(2000, empty=False),
    "target": text(2000, empty=False),
    "relation": relation_rule,
    "rule": one_of(*RULES),
    "bound": number_rule(),
}


@dataclass(frozen=True, slots=True)
class Accepted:
    """Entry of a file of accepted findings: conditions on the result, reason, and expiry date."""

    claim: str
    reason: str
    expires: datetime.date
    name: str | None = None
    target: str | None = None
    relation: str | None = None
    rule: str | None = None
    bound: float | None = None

    def matches(self, result: Json, rule: str) -> bool:
        """Return whether this entry applies to a result's violation of a rule."""
        return (
            self.name in (None, result.get("name"))
            and self.target in (None, _target_name(result))
            and self.relation in (None, result.get("relation"))
            and self.rule in (None, rule)
            and _same_claim(self.claim, result)
        )

    def objection(self, result: Json, rule: str, today: datetime.date) -> str:
        """Return why this entry no longer accepts a violation: expired, or grown beyond `bound`; an
        empty text if the entry accepts it.
        """
        if today > self.expires:
            return f"was accepted until {self.expires} and counts again: {self.reason}"
        # in an entry without a rule, the bound is for values
        if self.bound is None or (rule == "BITS" and self.rule != "BITS"):
            return ""
        found = intervals(result).get(BITS if rule == "BITS" else VALUE)
        if found is not None and found.exceeds_bound(self.bound):
            return (
                f"was accepted at {found.symbol} > {figure(self.bound)} and has grown beyond its "
                f"error to {found}: {self.reason}"
            )
        return ""

    def __str__(self) -> str:
        keys = ("name", "target", "claim", "relation", "rule")
        return ", ".join(f"{key} {getattr(self, key)}" for key in keys if getattr(self, key))


def read_accepted(path: str | Path) -> tuple[Accepted, ...]:
    """Return the entries of a file of accepted findings.

    Raises
    ------
    InvalidArgument
        If the file is not valid TOML, or a field is unknown, missing or invalid. The message is one
        line with the file and the field.
    """
    with errors_in(printable(Path(path).name)):
        content = read_bytes(path, most=_MAX_BYTES)
        try:
            found = tomllib.loads(content.decode("utf-8"))
        except (ValueError, RecursionError) as error:  # invalid UTF-8 or TOML
            raise InvalidArgument(f"must be TOML: {error}") from None
        _require_known_fields(found, ("accepted",), "")
        entries = listing(anything)(found.get("accepted", []), "accepted")
        return tuple(_parse_entry(entry, f"accepted[{i}]") for i, entry in enumerate(entries))


def _parse_entry(entry: Any, path: str) -> Accepted:
    if isinstance(entry, Mapping):
        _require_known_fields(entry, (*_OPTIONAL, *_REQUIRED), f"{path}.")
    fields = record(_OPTIONAL, **_REQUIRED)(entry, path)
    if "name" not in fields and "target" not in fields:
        raise InvalidArgument(f"{path} must have a name or a target")
    return Accepted(**fields)


def _require_known_fields(found: Mapping[str, Any], names: Sequence[str], at: str) -> None:
    for name in found:
        if name not in names:
            raise InvalidArgument(
                f"{at}{name} is not a known field; known fields are {', '.join(names)}"
                f"{did_you_mean(name, names)}"
            )


def apply_accepted(
    results: Sequence[Json], entries: Sequence[Accepted], today: datetime.date | None = None
) -> tuple[list[Json], list[Accepted]]:
    """Apply the entries of accepted findings to the results of a run; `today` is by default the
    current date.

    Return the results, and the stale entries, which match no violation of the run. Accepted
    violations are in the field ``"accepted"`` of a result; its notes name violations that are no
    longer accepted.
    """
    day = today or datetime.date.today()
    stale = [
        entry
        for entry in entries
        if not any(entry.matches(result, rule) for result in results for rule in rules_of(result))
    ]
    return [_annotated(result, entries, day) for result in results], stale


def _annotated(result: Json, entries: Sequence[Accepted], today: datetime.date) -> Json:
    """Return a result with its accepted violations, and with notes on those that count again."""
    accepted: dict[str, Accepted] = {}
    notes = list(result.get("notes") or [])
    for rule in rules_of(result):
        matching = [entry for entry in entries if entry.matches(result, rule)]
        objections = [entry.objection(result, rule, today) for entry in matching]
        if "" in objections:
            accepted[rule] = matching[objections.index("")]
        else:
            notes += [f"{rule} {objection}" for objection in objections]
    found = {**result, "notes": notes} if notes else dict(result)
    if accepted:
        reasons = dict.fromkeys(entry.reason for entry in accepted.values())
        expires = min(entry.expires for entry in accepted.values())
        found["accepted"] = {
            "reason": "; ".join(reasons),
            "expires": expires.isoformat(),
            "rules": list(accepted),
        }
    return found


def _target_name(result: Json) -> str | None:
    """Return the target of a result as on the command line: MODULE:NAME or FILE.py:NAME; None if
    unknown.
    """
    target = result.get("target")
    if not isinstance(target, Mapping):
        return None
    kwargs = target.get("kwargs")
    # a target in a worker process
    if isinstance(kwargs, Mapping) and "file" in kwargs and "name" in kwargs:
        return f"{kwargs['file']}:{kwargs['name']}"
    return str(target.get("target"))


def _same_claim(claim: str, result: Json) -> bool:
    """Return whether a claim's text equals the claim of a result, as text or after parsing."""
    if claim == result.get("claim"):
        return True
    try:
        return parse_claim(claim) == claim_of(result)
    except InvalidArgument:
        return False
