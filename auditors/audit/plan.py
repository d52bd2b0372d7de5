"""Plan of an audit before any run: required number of runs, detectable violations, and expected
time.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Self

from scipy.special import ndtr

from dpwitness.auditors.audit.options import (
    LEAST,
    MOST_TRIALS,
    RunCost,
    format_duration,
    validated_options,
)
from dpwitness.auditors.audit.power import (
    FEW,
    MOST_REHEARSED,
    REPEATS,
    Rehearsals,
    as_deviations,
    chance,
    split_budget,
)
from dpwitness.auditors.audit.sampler import Sampler, measure_cost
from dpwitness.auditors.density.known_laws import SHAPES, law_with_parameter, parameter_of
from dpwitness.auditors.density.limit import limit_of_law
from dpwitness.auditors.density.routes import loss_law
from dpwitness.auditors.search.catalogue import audited_pairs
from dpwitness.auditors.statistics.loss_law import LossLaw
from dpwitness.auditors.statistics.mean_limits import bracket
from dpwitness.auditors.witnesses.verdicts import SCHEMA, strict
from dpwitness.core.claims import Claim, promised, resolved
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.protocols import name_of
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import (
    InvalidArgument,
    require_integer,
    require_one_of,
    require_positive,
    require_probability,
    short_repr,
)


@dataclass(frozen=True, slots=True)
class Prediction:
    """Prediction for one number of runs; None where a number does not apply."""

    trials: int
    chance: float | None  # probability of finding the violation `find`
    # smallest violation of the plan's shape that is found with the plan's power
    detectable: float | None
    certified: float | None  # median parameter that an audit of the mechanism's own law certifies
    seconds: float | None  # expected time


@dataclass(frozen=True, slots=True)
class Plan:
    """Required number of runs of an audit, and the violations that a number of runs can find.

    Parameters
    ----------
    claim : Claim
        The claim to refute.
    shape : str
        ``"coin"``, ``"laplace"``, ``"gaussian"``, or ``"own"``, the mechanism's own law.
    find : float, optional
        Parameter of the violation to find.
    needed : int, optional
        Number of runs that finds the violation with probability `power`. None if no number up to
        1e12 does, or there is no violation.
    given : int, optional
        Number of runs that the user gave.
    detectable, chance : float, optional
        Smallest violation that the given runs find with probability `power`, and their probability
        of finding `find`.
    power, confidence : float
        Probability of VIOLATED, and confidence of the audit.
    pairs : int
        Number of pairs from which a pilot picks.
    seconds_per_run, expected_seconds : float, optional
        Seconds per run, measured with `workers` workers, and expected seconds of the given or else
        the needed runs.
    name : str
        Name of the mechanism; empty without a mechanism.
    workers : int
        Number of workers on which the mechanism was timed.
    rows : tuple of Prediction
        Predictions for several numbers of runs.
    assumes : tuple of str
        Assumptions of the plan.
    """

    claim: Claim
    shape: str
    find: float | None
    needed: int | None
    given: int | None
    detectable: float | None
    chance: float | None
    power: float
    confidence: float
    pairs: int
    name: str
    workers: int
    seconds_per_run: float | None
    expected_seconds: float | None
    rows: tuple[Prediction, ...]
    assumes: tuple[str, ...]

    @property
    def impossible(self) -> bool:
        """Return whether there is a violation to find, but no number of runs up to 1e12
        finds it.
        """
        return self.find is not None and self.find > self.claim.parameter and self.needed is None

    def headline(self) -> str:
        """Return the required runs, or the detectable violation, in one line."""
        symbol, likely = self.claim.symbol, f"with probability {self.power:g}"
        time_text = (
            f", in about {format_duration(self.expected_seconds)}"
            if self.expected_seconds is not None
            else ""
        )
        if self.find is not None and self.find <= self.claim.parameter:
            return (
                f"nothing to find: {symbol} = {self.find:.6g} on this pair, where {self.claim} "
                "holds"
            )
        what = (
            f"a violation of {self.claim} by {symbol} = {self.find:.12g} ({self.shape})"
            if self.find is not None
            else ""
        )
        if self.impossible:
            return f"out of reach: no audit of at most {MOST_TRIALS:.0e} runs finds {what} {likely}"
        if self.find is not None:
            given_text = (
                f"; {self.given:,} runs with probability {self.chance:.2g}"
                if self.given is not None
                else ""
            )
            return f"{self.needed:,} runs find {what} {likely}{given_text}{time_text}"
        if self.detectable is None or math.isinf(self.detectable):
            return (
                f"{self.given:,} runs find no violation of {self.claim} ({self.shape}) "
                f"{likely}{time_text}"
            )
        return (
            f"{self.given:,} runs find a violation of {self.claim} from {symbol} = "
            f"{self.detectable:.6g} on ({self.shape})"
            f" {likely}{time_text}"
        )

    def table(self) -> list[list[str]]:
        """Return the rows as text, under a header, without empty columns."""
        symbol = self.claim.symbol
        columns: list[tuple[str, str, Callable[[Any], str]]] = [
            ("runs", "trials", "{:,}".format),
            (f"{symbol} found with probability {self.power:g}", "detectable", _format_violation),
            (f"{symbol} that half certify", "certified", _format_violation),
            (f"chance to find {self.find or 0.0:.12g}", "chance", "{:.2g}".format),
            ("time", "seconds", format_duration),
        ]
        texts = {
            head: [write(getattr(row, field)) for row in self.rows]
            for head, field, write in columns
            if getattr(self.rows[0], field) is not None
        }
        return [list(texts), *map(list, zip(*texts.values(), strict=True))]

    def to_json(self) -> Json:
        """Return the fields as JSON values."""
        return {
            "schema_version": SCHEMA,
            "kind": "plan",
            "headline": self.headline(),
            **strict({key: value for key, value in asdict(self).items() if key != "claim"}),
            "claim": str(self.claim),
            "claim_numbers": list(self.claim.numbers),
            "parameter": self.claim.symbol,
            "impossible": self.impossible,
        }

    def __str__(self) -> str:
        table = self.table()
        width = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = [
            "  " + "   ".join(text.rjust(size) for text, size in zip(row, width, strict=True))
            for row in table
        ]
        return "\n".join(
            [self.headline(), "", *lines, "", *(f"  assumes  {text}" for text in self.assumes)]
        )


def _format_violation(value: float) -> str:
    """Return the parameter as text, or "none" for infinity."""
    return "none" if math.isinf(value) else f"{value:.6g}"


OWN = "own"  # the mechanism's own loss law


def plan(
    claim: Claim | str | None = None,
    *,
    find: float | None = None,
    trials: int | None = None,
    shape: str | None = None,
    power: float = 0.9,
    confidence: float = 0.99,
    mechanism: Any = None,
    pair: Pair | Sequence[Pair] | None = None,
    executor: Executor | None = None,
    name: str | None = None,
) -> Plan:
    """Return the number of runs with which an audit finds a violation, and the violations that a
    number of runs can find.

    Parameters
    ----------
    claim : Claim or str, optional
        The claim to refute. Default: ``mechanism.claim``.
    find : float, optional
        Parameter of the violation, in the claim's notion, at the claim's delta or order. Must
        exceed the claim's parameter.
    trials : int, optional
        Number of runs to predict for, counted as in `audit`: both datasets and all stages. `find`,
        `trials` or both are required, unless the mechanism's own law determines the violation.
    shape : {"coin", "laplace", "gaussian"}, optional
        Law of the violation: randomized response, Laplace noise or Gaussian noise. The default,
        randomized response, is the easiest law to detect at a given epsilon, so the plan gives the
        smallest number of runs that may be enough.
    power : float
        Probability of VIOLATED, in (0, 1).
    confidence : float
        Confidence level of the audit.
    mechanism : Mechanism or callable, optional
        Mechanism to run for a short time, to predict the time of the audit. If it has a
        ``log_density``, and neither `find` nor `shape` is given, the plan is made for the
        mechanism's own law.
    pair : Pair or list of Pair, optional
        Pairs on which the mechanism runs. Default: pairs of the mechanism's domain, from which the
        pilot must pick one.
    executor : concurrent.futures.Executor, optional
        Executor for the timing, the same as for the audit.
    name : str, optional
        Name of the mechanism.

    Returns
    -------
    Plan
        Required runs, detectable violations, expected time, and assumptions.

    Raises
    ------
    InvalidArgument
        If an argument is invalid.
    MechanismFailed
        If the mechanism crashes or hangs while it is timed.

    Examples
    --------
    >>> found = plan("pure:1", find=1.1)
    >>> 9_000 < found.needed < 13_000
    True
    >>> plan("pure:1", trials=found.needed).detectable < 1.11
    True
    """
    claim = promised(mechanism, claim, "plan")
    require_probability("power", power, "plan")
    require_probability("confidence", confidence, "plan")
    trials = (
        None
        if trials is None
        else require_integer("trials", trials, "plan", least=LEAST, most=MOST_TRIALS)
    )
    if shape is not None:
        require_one_of("shape", shape, SHAPES, "plan")
    if mechanism is None and pair is not None:
        raise InvalidArgument("plan: pair must be left out without a mechanism to run on it")
    pairs = [] if mechanism is None else audited_pairs(mechanism, pair)
    claim, claim_notes = resolved(claim, pairs[0] if pairs else None)
    kind, find, law = _violation(claim, find, shape, mechanism, pairs)
    if law is None and trials is None:
        raise InvalidArgument("plan: find or trials must be given, got neither")
    cost = None if mechanism is None else _measured_cost(mechanism, claim, pairs[0], executor, name)
    violated = find is not None and find > claim.parameter
    rehearsals = Rehearsals(mechanism, claim, pairs, confidence, executor)
    forecast, needed = _Forecast(kind, law, power, rehearsals, cost), None
    if violated:
        forecast, needed = forecast.with_required_runs(rehearsed=shape is None)
    center = trials or needed or (10**6 if kind == OWN else MOST_TRIALS)
    rows: dict[int | None, Prediction] = {
        runs: forecast.prediction(runs, rehearsed=runs in (needed, trials))
        for runs in _sizes_around(center)
    }
    unknown = Prediction(0, None, None, None, None)
    given = rows.get(trials, unknown)
    return Plan(
        claim=claim,
        shape=kind,
        find=find,
        needed=needed,
        given=trials,
        detectable=given.detectable,
        chance=given.chance,
        power=power,
        confidence=confidence,
        pairs=rehearsals.tried,
        name=name or ("" if mechanism is None else name_of(mechanism)),
        workers=getattr(executor, "_max_workers", 1),
        seconds_per_run=cost.run if cost else None,
        expected_seconds=rows.get(trials or needed, unknown).seconds,
        rows=tuple(rows.values()),
        assumes=(*_assumptions(forecast, violated), *claim_notes),
    )


def _measured_cost(
    mechanism: Any, claim: Claim, pair: Pair, executor: Executor | None, name: str | None
) -> RunCost:
    """Measure the cost of the mechanism's runs on a pair."""
    options = validated_options(mechanism, claim, LEAST, 0.99, 0, executor, name)
    with closing(Sampler(options)) as sampler:
        return measure_cost(sampler, options, pair)


def _sizes_around(center: int) -> list[int]:
    """Return the numbers of runs of the rows of a plan: `center`, and rounded ones around it."""
    sizes = {int(float(f"{center * part:.3g}")) for part in (0.1, 0.3, 1.0, 3.0, 10.0)}
    return sorted({min(max(size, LEAST), MOST_TRIALS) for size in sizes} | {center})


def _violation(
    claim: Claim, find: float | None, shape: str | None, mechanism: Any, pairs: list[Pair]
) -> tuple[str, float | None, LossLaw | None]:
    """Return the shape, the parameter and the law of the violation. If neither `find` nor `shape`
    is given, the violation is the mechanism's own law, if this law is known.
    """
    if find is not None and require_positive("find", find, "plan") <= claim.parameter:
        raise InvalidArgument(
            f"plan: find must be larger than the claim's {claim.symbol} = "
            f"{claim.parameter:g}, got {short_repr(find)}"
        )
    if shape is None and find is None:
        # of the first pairs, the one with the largest parameter, if the law of each is known
        laws = [loss_law(mechanism, each) for each in pairs[:16]]
        if laws and None not in laws:
            law = max(filter(None, laws), key=lambda each: parameter_of(claim, each))
            own = parameter_of(claim, law)
            # a parameter that exceeds the claim by rounding only is not a violation
            exceeds = own > claim.parameter * (1 + 1e-6)
            return OWN, own if exceeds else min(own, claim.parameter), law
    kind = shape or "coin"
    return kind, find, None if find is None else law_with_parameter(kind, claim, find)


@dataclass(frozen=True, slots=True, eq=False)
class _Forecast:
    """Violation of a plan, and what predicts whether an audit finds it."""

    kind: str  # shape of the violation
    law: LossLaw | None
    power: float
    rehearsals: Rehearsals
    cost: RunCost | None
    # power that rehearsals lack against the law, in standard deviations; None without rehearsals
    shortfall: float | None = None

    def chance(self, runs: int, law: LossLaw) -> float:
        """Return the probability that an audit with this number of runs finds a violation by
        `law`.
        """
        audits = self.rehearsals
        # outputs may be floating-point numbers, for which the audit has to learn an event
        floats = self.kind in ("laplace", "gaussian") or audits.mechanism is not None
        return chance(
            law,
            audits.claim,
            runs,
            1 - audits.confidence,
            pairs=audits.tried,
            floats=floats or len(law.p) > FEW,
        )

    def with_required_runs(self, *, rehearsed: bool) -> tuple[Self, int | None]:
        """Return the forecast with its shortfall, and the number of runs that finds the violation.

        Rehearsals, if allowed, determine the number of runs if the mechanism's own law is the
        violation, or if the target itself violates the claim and its runs are cheap.
        """
        law, audits = self.law, self.rehearsals
        if law is None:
            return self, None
        needed = _runs_needed(lambda runs: self.chance(runs, law), self.power)
        if needed is None or not rehearsed or audits.claim.bounds_renyi:
            return self, needed
        if self.kind == OWN:
            is_exact = hasattr(audits.mechanism, "log_density")
            found = audits.needed(needed, self.power) if is_exact else None
        elif self._is_cheap(needed) and audits.chance(needed) > 0.05:
            found = audits.needed(needed, self.power) or needed
        else:
            found = None
        if found is None:
            return self, needed
        lack = as_deviations(self.chance(found, law)) - as_deviations(audits.chance(found))
        return replace(self, shortfall=max(0.0, lack)), found

    def _is_cheap(self, runs: int) -> bool:
        """Return whether audits with this number of runs can be rehearsed within seconds."""
        return (
            self.cost is not None
            and runs <= MOST_REHEARSED
            and self.cost.run * runs * REPEATS < 20.0  # seconds
        )

    def prediction(self, runs: int, *, rehearsed: bool) -> Prediction:
        """Return the prediction for a number of runs, which may be `rehearsed`."""
        law, claim, audits = self.law, self.rehearsals.claim, self.rehearsals
        seconds = self.cost.time(runs, audits.tried) if self.cost else None
        found = None
        if law is not None:  # the power that rehearsals found, not the power of the law
            found = float(ndtr(as_deviations(self.chance(runs, law)) - (self.shortfall or 0.0)))
        if law is None or self.kind != OWN:
            least = _smallest_parameter(claim, self.kind, self.power, partial(self.chance, runs))
            return Prediction(runs, found, least, None, seconds)
        if self.shortfall is not None and rehearsed and runs <= MOST_REHEARSED:
            found = audits.chance(runs)
        budget = split_budget(runs, audits.tried, floats=True)[1]
        median = limit_of_law(law, claim, budget, audits.error)
        return Prediction(runs, found, None, median, seconds)


def _runs_needed(chance_of: Callable[[int], float], power: float) -> int | None:
    """Return the smallest number of runs with this power, rounded up to three digits; None if there
    is none.
    """
    high = LEAST
    while chance_of(high) < power:
        if high >= MOST_TRIALS:
            return None
        high = min(2 * high, MOST_TRIALS)
    if high == LEAST:
        return LEAST
    unit: int = 10 ** max(0, len(str(high)) - 3)
    sizes: list[int] = [*range(high // 2, high, unit), high]
    return sizes[bisect_left(sizes, True, key=lambda runs: chance_of(runs) >= power)]


def _smallest_parameter(
    claim: Claim, shape: str, power: float, chance_of: Callable[[LossLaw], float]
) -> float:
    """Return the smallest parameter of this shape that is found with this power; infinity if there
    is none.
    """

    def found(excess: float) -> bool:
        return chance_of(law_with_parameter(shape, claim, claim.parameter * (1 + excess))) >= power

    low, high = 0.0, 1e-6  # relative excess over the claim
    try:
        while not found(high):
            low, high = high, 4 * high
    except InvalidArgument:  # no law of this shape has a parameter this large
        if low == 0.0:
            raise
        return math.inf
    _, high = bracket(lambda excess: not found(excess), low, high, 14)
    return claim.parameter * (1 + high)


def _assumptions(forecast: _Forecast, violated: bool) -> tuple[str, ...]:
    """Return the assumptions of the plan as sentences."""
    audits, cost, shape = forecast.rehearsals, forecast.cost, forecast.kind
    claim, pairs, rehearsed = audits.claim, audits.tried, forecast.shortfall is not None
    easiest = (
        f"randomized response: no law with this {claim.symbol} is easier to detect, others "
        "may need far more runs"
        if claim.bounds_epsilon
        else f"randomized response, where one event shows the full {claim.symbol}: other laws may "
        "need more runs"
    )
    texts = {
        "coin": easiest,
        "laplace": f"Laplace noise with this {claim.symbol}, one number per run",
        "gaussian": f"Gaussian noise with this {claim.symbol}, one number per run",
        OWN: "the law given by the mechanism's log_density, on the examined pair with the largest "
        "leak",
    }
    where = (
        "one pair, no pilot"
        if pairs == 1
        else f"a pilot over {pairs} pairs that picks the one with the violation"
    )
    # rehearsals of a target that violates the claim, or of the mechanism's own law
    rehearsals = {
        ("coin", True): f"the target itself violates the claim: {REPEATS} rehearsals of its audit "
        "need at least as many runs",
        (OWN, True): f"events and pairs chosen by {REPEATS} rehearsals of the audit, with rates "
        "computed from the log_density",
        (OWN, False): "the best event of that law, minus the cost of learning measured on Laplace "
        "and Gaussian noise: not rehearsed",
    }
    found = (
        texts[shape],
        f"{where}; confidence {audits.confidence:g}; runs of all stages are counted",
        f"{format_duration(cost.run)} per run, measured on {cost.runs:,} runs" if cost else "",
        rehearsals.get((shape, rehearsed), "") if violated else "",
    )
    return tuple(filter(None, found))
