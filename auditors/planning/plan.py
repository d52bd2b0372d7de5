"""Plan before running: how many runs find a violation, what a number of runs can find, and how long it takes."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from typing import Any

from scipy.special import ndtr, ndtri

from dpwitness.auditors.black_box.audit import pairs_of, timed
from dpwitness.auditors.black_box.timing import LEAST, Price, told_in_time
from dpwitness.auditors.loss.limit import limit_of_law
from dpwitness.auditors.loss.routes import loss_law
from dpwitness.auditors.loss.shapes import SHAPES, law_with, parameter_of
from dpwitness.auditors.planning.power import FEW, budget_of, chance, error_of
from dpwitness.auditors.planning.rehearsal import MOST as REHEARSED
from dpwitness.auditors.planning.rehearsal import REPEATS, Rehearsals
from dpwitness.auditors.results.verdicts import SCHEMA, strict
from dpwitness.auditors.statistics.loss_law import LossLaw
from dpwitness.mechanisms.terms.notions import Claim, promised, resolved
from dpwitness.mechanisms.terms.pairs import Pair
from dpwitness.mechanisms.terms.powers import offers
from dpwitness.mechanisms.terms.protocol import WhiteBox, name_of
from dpwitness.mechanisms.terms.reading import Json
from dpwitness.mechanisms.terms.validation import (
    InvalidArgument,
    require_integer,
    require_one_of,
    require_positive,
    require_probability,
    shown,
)

MOST = 10**12  # runs
OWN = "own"  # the law of the mechanism's own pair
_TABLE = (0.1, 0.3, 1.0, 3.0, 10.0)  # of the runs, the rows of the table
_EQUAL = 1e-6  # a law's parameter and the claim's, for laws are computed in floating point
_SHOWS, _PATIENCE = 0.05, 20.0  # chance from which a target itself leaks; seconds that its rehearsals may take
_LAWS = 16  # pairs whose law is looked at
_SMALLEST, _HALVINGS = 1e-6, 14  # of a violation over the claim that is looked for; of the interval around it


@dataclass(frozen=True, slots=True)
class Row:
    """What so many runs find: the violation of `find` with this chance; the smallest with the plan's power; half of the audits certify.

    `detectable` is that smallest violation of a shape, `certified` the median of the mechanism's own law; None where it does not apply.
    """

    trials: int
    chance: float | None
    detectable: float | None
    certified: float | None
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Plan:
    """How many runs an audit needs, and what a number of runs can find.

    Parameters
    ----------
    claim : Claim
    shape : str
        ``"coin"``, ``"laplace"``, ``"gaussian"``, or ``"own"``, the mechanism's own law.
    find : float, optional
        Parameter of the violation to find.
    needed : int, optional
        Runs that find it with probability `power`; None where no number up to 1e12 does, or nothing is to be found.
    given : int, optional
        Runs that were given.
    detectable, chance : float, optional
        Smallest violation that the given runs find with probability `power`, and the probability with which they find `find`.
    power, confidence : float
    pairs : int
        Among which a pilot picks.
    seconds_per_run, expected_seconds : float, optional
        As measured on the target with so many `workers`, and for the given or else the needed runs.
    rows : tuple of Row
    assumes : tuple of str
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
    rows: tuple[Row, ...]
    assumes: tuple[str, ...]

    @property
    def impossible(self) -> bool:
        """Whether there is a violation to find, and no number of runs up to 1e12 finds it."""
        return self.find is not None and self.find > self.claim.parameter and self.needed is None

    def headline(self) -> str:
        """What is needed, or found, in one line."""
        symbol, likely = self.claim.symbol, f"with probability {self.power:g}"
        takes = f", in about {told_in_time(self.expected_seconds)}" if self.expected_seconds is not None else ""
        if self.find is not None and self.find <= self.claim.parameter:
            return f"nothing to find: {symbol} = {self.find:.6g} on this pair, {self.claim} is kept there"
        what = f"a violation of {self.claim} by {symbol} = {self.find:.12g} ({self.shape})" if self.find is not None else ""
        if self.impossible:
            return f"out of reach: no audit of at most {MOST:.0e} runs finds {what} {likely}"
        if self.find is not None:
            found = f"{self.needed:,} runs find {what} {likely}"
            also = f"; {self.given:,} runs with probability {self.chance:.2g}" if self.given is not None else ""
            return found + also + takes
        if self.detectable is None or math.isinf(self.detectable):
            return f"{self.given:,} runs find no violation of {self.claim} ({self.shape}) {likely}{takes}"
        return (
            f"{self.given:,} runs find a violation of {self.claim} from {symbol} = {self.detectable:.6g} on ({self.shape}) {likely}{takes}"
        )

    def table(self) -> list[list[str]]:
        """The rows as text, under a header; only columns that say something."""
        symbol = self.claim.symbol
        columns: list[tuple[str, list[Any], Callable[[Any], str]]] = [
            ("runs", [row.trials for row in self.rows], lambda v: f"{v:,}"),
            (f"{symbol} found with probability {self.power:g}", [row.detectable for row in self.rows], _violation),
            (f"{symbol} that half certify", [row.certified for row in self.rows], _violation),
            ("" if self.find is None else f"chance to find {self.find:.12g}", [row.chance for row in self.rows], lambda v: f"{v:.2g}"),
            ("time", [row.seconds for row in self.rows], told_in_time),
        ]
        told = [(head, [write(v) for v in values]) for head, values, write in columns if values and values[0] is not None]
        return [[head for head, _ in told], *map(list, zip(*(values for _, values in told), strict=True))]

    def to_json(self) -> Json:
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
        lines = ["  " + "   ".join(text.rjust(size) for text, size in zip(row, width, strict=True)) for row in table]
        return "\n".join([self.headline(), "", *lines, "", *(f"  assumes  {text}" for text in self.assumes)])


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
    """How many runs of an audit find a violation of this size, and what a number of runs can find.

    Parameters
    ----------
    claim : Claim or str, optional
        ``mechanism.claim`` if left out.
    find : float, optional
        Parameter of the violation, in the claim's notion, at its delta or order; larger than the claim's.
    trials : int, optional
        Runs as `audit` counts them, both datasets and all stages, of which to tell what they find. `find`, `trials` or both are needed, but
        for a mechanism's own law, which says itself what is to be found.
    shape : {"coin", "laplace", "gaussian"}, optional
        Law of the violation: randomised response (the default: the easiest law of an epsilon, so the least number of runs that such a
        violation may take), or Laplace or Gaussian noise.
    power : float
        Probability of VIOLATED, in (0, 1).
    confidence : float
        Of the audit.
    mechanism : Mechanism or callable, optional
        Run for a moment, so that the plan knows the time. If it has a ``log_density``, and neither `find` nor `shape` is given, its own law
        is planned for.
    pair : Pair or list of Pair, optional
        Where the mechanism is run; pairs of its domain if left out, of which the pilot has to pick one.
    executor : concurrent.futures.Executor, optional
        On which it is timed, and which the audit will use.
    name : str, optional
        Of the mechanism.

    Returns
    -------
    Plan

    Raises
    ------
    InvalidArgument
        If an argument breaks its rule.
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
    alpha = 1 - require_probability("confidence", confidence, "plan")
    trials = None if trials is None else require_integer("trials", trials, "plan", least=LEAST, most=MOST)
    if shape is not None:
        require_one_of("shape", shape, SHAPES, "plan")
    if mechanism is None and pair is not None:
        raise InvalidArgument("plan: pair must be left out without a mechanism to run on it")
    pairs = [] if mechanism is None else pairs_of(mechanism, pair)
    claim, said = resolved(claim, pairs[0] if pairs else None)
    if find is not None and require_positive("find", find, "plan") <= claim.parameter:
        raise InvalidArgument(f"plan: find must be larger than the claim's {claim.symbol} = {claim.parameter:g}, got {shown(find)}")
    shaped = shape is not None
    own = _own_law(mechanism, pairs, claim) if shape is None and find is None else None
    if own is None and find is None and trials is None:
        raise InvalidArgument("plan: find or trials must be given, got neither")
    shape = OWN if own else shape or "coin"
    law = own or (law_with(shape, claim, find) if find is not None else None)
    if own:
        find = parameter_of(claim, own)
        find = min(find, claim.parameter) if find <= claim.parameter * (1 + _EQUAL) else find
    count, many = max(1, len(pairs)), shape in ("laplace", "gaussian") or mechanism is not None

    def chance_of(runs: int, of: LossLaw) -> float:
        return chance(of, claim, runs, alpha, pairs=count, floats=many or len(of.p) > FEW)

    def smallest(runs: int) -> float | None:
        return None if own else _smallest(claim, shape, power, lambda of: chance_of(runs, of))

    def median(runs: int) -> float | None:
        return limit_of_law(own, claim, budget_of(runs, count, many)[1], error_of(claim, alpha)) if own else None

    def likely(runs: int) -> float:
        """The chance of a row: rehearsed where it is stated, and elsewhere by the law, less what rehearsals fall short of the law."""
        if drill is not None and runs in (needed, trials) and runs <= REHEARSED:
            return drill.chance(runs)
        return float(ndtr(_deviations(chance_of(runs, law)) - beyond)) if law else 0.0

    violated = law is not None and find is not None and find > claim.parameter
    needed = _needed(lambda runs: chance_of(runs, law), power) if violated and law else None
    drill, beyond = None, 0.0
    if own and violated and needed is not None and not claim.bounds_renyi and offers(mechanism, WhiteBox):
        drill = Rehearsals(mechanism, claim, pairs, confidence, executor)
        rehearsed = drill.needed(needed, power)
        if rehearsed is None:
            drill = None
        else:
            beyond = max(0.0, _deviations(chance_of(rehearsed, own)) - _deviations(drill.chance(rehearsed)))
            needed = rehearsed
    price = None if mechanism is None else timed(mechanism, claim=claim, pair=pairs[0], executor=executor, name=name)
    showing = False
    if price and not own and not shaped and needed is not None and price.run * needed * REPEATS < _PATIENCE and not claim.bounds_renyi:
        target = Rehearsals(mechanism, claim, pairs, confidence, executor)
        if needed <= REHEARSED and target.chance(needed) > _SHOWS:  # this target leaks: its audits are what will be run
            needed, showing = target.needed(needed, power) or needed, True
            if law is not None:  # the rows state what the rehearsals of this target found, not what the easiest law allows
                beyond = max(0.0, _deviations(chance_of(needed, law)) - _deviations(target.chance(needed)))
    center = trials or needed or (10**6 if own else MOST)
    sizes = sorted({min(max(_three_digits(center * part), LEAST), MOST) for part in _TABLE} | {center})
    rows = tuple(
        Row(runs, likely(runs) if law else None, smallest(runs), median(runs), price.time(runs, count) if price else None) for runs in sizes
    )
    given = next((row for row in rows if row.trials == trials), None)
    planned = trials or needed
    return Plan(
        claim=claim,
        shape=shape,
        find=find,
        needed=needed,
        given=trials,
        detectable=given.detectable if given else None,
        chance=given.chance if given else None,
        power=power,
        confidence=confidence,
        pairs=count,
        name=name or ("" if mechanism is None else name_of(mechanism)),
        workers=getattr(executor, "_max_workers", 1),
        seconds_per_run=price.run if price else None,
        expected_seconds=price.time(planned, count) if price and planned else None,
        rows=rows,
        assumes=(*_assumptions(claim, shape, count, confidence, price), *_rehearsed(own is not None and violated, drill, showing), *said),
    )


def _deviations(chance: float) -> float:
    """A probability as standard deviations, where it is neither 0 nor 1."""
    return float(ndtri(min(max(chance, 1e-12), 1 - 1e-12)))


def _own_law(mechanism: Any, pairs: Sequence[Pair], claim: Claim) -> LossLaw | None:
    """Of the pair with the largest parameter, of the first few; None if one of them has no known law."""
    laws = [loss_law(mechanism, pair) for pair in pairs[:_LAWS]]
    known = [law for law in laws if law is not None]
    return max(known, key=lambda law: parameter_of(claim, law)) if known and len(known) == len(laws) else None


def _needed(chance_of: Callable[[int], float], power: float) -> int | None:
    """Fewest runs with this chance, to three digits, rounded up."""
    high = LEAST
    while chance_of(high) < power:
        if high >= MOST:
            return None
        high = min(2 * high, MOST)
    if high == LEAST:
        return LEAST
    unit: int = 10 ** max(0, len(str(high)) - 3)
    sizes: list[int] = [*range(high // 2, high, unit), high]
    return sizes[bisect_left(sizes, True, key=lambda runs: chance_of(runs) >= power)]


def _smallest(claim: Claim, shape: str, power: float, chance_of: Callable[[LossLaw], float]) -> float:
    """Smallest parameter of this shape that is found with this chance; infinity if none is."""

    def found(excess: float) -> bool:
        return chance_of(law_with(shape, claim, claim.parameter * (1 + excess))) >= power

    low, high = 0.0, _SMALLEST
    try:
        while not found(high):
            low, high = high, 4 * high
    except InvalidArgument:  # no such shape has a parameter as large
        if low == 0.0:
            raise
        return math.inf
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if found(middle) else (middle, high)
    return claim.parameter * (1 + high)


def _three_digits(value: float) -> int:
    unit = 10 ** max(0, len(str(int(value))) - 3)
    return int(round(value / unit) * unit)


def _violation(value: float) -> str:
    return "none" if math.isinf(value) else f"{value:.6g}"


def _rehearsed(own: bool, drill: Rehearsals | None, showing: bool) -> tuple[str, ...]:
    if showing:
        return (f"the target itself violates the claim: {REPEATS} rehearsals of its audit ask for no fewer runs",)
    if not own:
        return ()
    if drill is None:
        return ("the best event of that law, less what learning cost on Laplace and Gaussian noise: these runs were not rehearsed",)
    return (f"events and pairs as {REPEATS} rehearsals of the audit chose them, whose rates are computed from the log_density",)


def _assumptions(claim: Claim, shape: str, pairs: int, confidence: float, price: Price | None) -> tuple[str, ...]:
    easiest = (
        f"randomised response: no law of this {claim.symbol} is easier to tell, others may need far more runs"
        if claim.bounds_epsilon
        else f"randomised response, whose whole {claim.symbol} one event shows: other laws may need more runs"
    )
    told = {
        "coin": easiest,
        "laplace": f"Laplace noise with this {claim.symbol}, one number a run",
        "gaussian": f"Gaussian noise with this {claim.symbol}, one number a run",
        OWN: "the law that the mechanism's log_density says, on the pair that leaks most of those looked at",
    }
    where = "one pair, no pilot" if pairs == 1 else f"a pilot over {pairs} pairs that picks the one with the violation"
    timing = (f"{told_in_time(price.run)} a run, as {price.runs:,} runs took",) if price else ()
    return (told[shape], f"{where}; confidence {confidence:g}; runs of all stages are counted", *timing)
