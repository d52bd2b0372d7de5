"""Search for the parameters at which an accountant's figure is lowest, compared with the exact one:
the question of an audit, the search, and narrowing to simple parameters.
"""

from __future__ import annotations

import inspect
import itertools
import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from dpwitness.auditors.functions.accounting.mechanisms import (
    FIGURES,
    GAME_FIGURES,
    MECHANISMS,
    RELATIVE,
    Parameter,
    Point,
    Reference,
    allowed_error,
    exact_figure,
    is_below,
)
from dpwitness.auditors.functions.accounting.profiles import Unavailable
from dpwitness.auditors.search.catalogue import shrunk
from dpwitness.auditors.workers.loading import constants_of
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument, error_text, require_one_of, short_repr


def number_of(answer: Any) -> tuple[float, str]:
    """Return an answer as a number, and a description of the problem if the answer is an exception
    or not a real number.

    Numbers of every library that convert to float are read, infinite ones too. Bools, texts and
    complex numbers convert in some cases, but are not figures.
    """
    if isinstance(answer, BaseException):
        return math.nan, error_text(answer)
    kind = getattr(getattr(answer, "dtype", None), "kind", "f")
    refused = f"returned {type(answer).__name__}, not a number"
    # NumPy's kinds of bools, complex numbers, times, objects, texts and records
    if isinstance(answer, bool | str | bytes | bytearray | complex) or kind in "bcmMOSUV":
        return math.nan, refused
    try:
        number = float(answer)
    except OverflowError:
        return math.nan, f"returned {type(answer).__name__} beyond the largest double"
    except Exception:  # a conversion of a user's class may raise anything
        return math.nan, refused
    return number, "returned nan" if math.isnan(number) else ""


Call = Callable[[Sequence[Point]], Sequence[Any]]  # figures, or exceptions, at several points
_CORNERS = 400  # largest number of combinations of extreme values
_BATCH = 16  # number of figures that are compared before the search chooses again
# length of the longest list of parameters, and number of its different entries
_LIST, _DIFFERENT = 48, 6
OWNER = "audit_accountant"


@dataclass(frozen=True, slots=True)
class FigureComparison:
    """Figure of the accountant at one point, and the exact figure, which is a rigorous lower bound.

    The exact epsilon is 0 if it is not positive. With a negative figure, it is the exact one,
    negative too.
    """

    at: Point
    figure: float
    exact: float

    @property
    def ratio(self) -> float:
        """Figure over exact figure, or e^figure over e^exact for a negative figure; 1 if both are 0
        or infinite.
        """
        if self.figure == self.exact:
            return 1.0
        if self.figure < 0:
            return math.exp(self.figure - self.exact)
        return math.inf if self.exact == 0 else self.figure / self.exact


@dataclass(frozen=True, slots=True)
class SearchState:
    """State of a search: the lowest and the highest figure, violations, and what was skipped.

    `rounding` counts figures that are too low by no more than rounding, at most by `deficit`;
    `negative` counts negative epsilons that are not too low.
    """

    lowest: FigureComparison | None = None
    highest: FigureComparison | None = None
    violation: FigureComparison | None = None
    score: float = math.inf  # of the lowest comparison
    compared: int = 0
    rounding: int = 0
    deficit: float = 0.0
    negative: int = 0
    failures: tuple[str, ...] = ()  # problems of failed calls, at most three
    unavailable: int = 0
    failed: int = 0

    def with_failures(self, problems: Sequence[str]) -> SearchState:
        """Return the state after further failed calls."""
        kept = tuple(dict.fromkeys((*self.failures, *problems)))[:3]
        return replace(self, failed=self.failed + len(problems), failures=kept)


@dataclass(frozen=True, slots=True)
class Question:
    """Mechanism, figure, parameters with their ranges, and the function that calls the
    accountant.
    """

    reference: Reference
    returns: str
    parameters: tuple[Parameter, ...]
    fixed: Point
    call: Call

    def complete(self, at: Point) -> Point:
        """Return a point with the defaults of the parameters that the accountant does not take."""
        return {**self.fixed, **at}

    def violated(self, figure: float, at: Point) -> bool:
        """Return whether a figure is below the exact one by more than the allowed error."""
        return figure < math.inf and is_below(
            self.returns,
            figure + allowed_error(self.returns, figure),
            self.reference,
            self.complete(at),
        )

    def compare(self, at: Point, figure: float, accuracy: float = 1e-12) -> FigureComparison:
        """Return the comparison at one point. Raises Unavailable if the exact figure cannot be
        computed.
        """
        return FigureComparison(
            at,
            figure,
            exact_figure(
                self.returns, self.reference, self.complete(at), accuracy, signed=figure < 0
            ),
        )


def search(question: Question, *, seconds: float, evaluations: int, seed: int) -> SearchState:
    """Compare the accountant with the exact figure at extreme, random and promising points, until
    the budget is spent.
    """
    rng, end, found = np.random.default_rng(seed), time.monotonic() + seconds, SearchState()
    tried, count = points(question.parameters, rng), 0
    # figures that take libraries little time: more calls than usual, and suspect ones come first
    asked = _BATCH * (4 if question.returns in ("rdp", "zcdp") else 1)
    while (
        count < evaluations and found.violation is None and (count == 0 or time.monotonic() < end)
    ):
        batch = list(itertools.islice(tried, min(asked, evaluations - count)))
        # points near the lowest figure are no better than others if that is exact up to 1e-4
        if found.lowest is not None and count >= 64 and abs(found.score - 1) > 1e-4:
            batch[::2] = [_near(found.lowest.at, question.parameters, rng) for _ in batch[::2]]
        if not batch:
            break
        answers = list(zip(batch, question.call(batch), strict=True))
        # a stable sort: figures that no mechanism can have first; the total is the usual number
        answers.sort(key=lambda pair: not number_of(pair[1])[0] <= 0)
        for at, answer in answers[:_BATCH]:
            found = compared(found, question, at, answer)
            if time.monotonic() > end:
                break
        count += len(batch)
    return found


def compared(found: SearchState, question: Question, at: Point, answer: Any) -> SearchState:
    """Return the state after one answer of the accountant: a number, or an exception."""
    figure, failure = number_of(answer)
    if failure:
        return found.with_failures([failure])
    slow = question.returns == "noise" and question.complete(at).get("steps", 1) > 1
    try:
        # accuracy of an exact figure that takes long to compute
        new = question.compare(at, figure, 1e-3 if slow else 1e-12)
        deficit = max(0.0, new.exact - figure)
        violated = deficit > 0 and question.violated(figure, at)
        if not violated and deficit > 2 * allowed_error(question.returns, figure):
            raise Unavailable("the enclosures of the exact figure do not decide")
    except (Unavailable, ValueError, OverflowError):
        return replace(found, unavailable=found.unavailable + 1)
    rounding_error = FIGURES[question.returns].rounding
    score = (figure + rounding_error) / (new.exact + rounding_error) if figure >= 0 else new.ratio
    score = score if math.isfinite(new.exact) else 1.0
    changed: dict[str, Any] = {
        "lowest": new if found.lowest is None or score < found.score else found.lowest,
        "score": min(score, found.score),
        "highest": new if _is_loosest(found, new, rounding_error) else found.highest,
        "violation": new if violated and found.violation is None else found.violation,
    }
    if deficit > RELATIVE * abs(new.exact) and not violated:
        changed |= {"rounding": found.rounding + 1, "deficit": max(deficit, found.deficit)}
    if new.exact < 0 and not violated:
        changed["negative"] = found.negative + 1
    return replace(found, **changed, compared=found.compared + 1)


def _is_loosest(found: SearchState, new: FigureComparison, rounding_error: float) -> bool:
    """Return whether a figure is too high by more than rounding, and by more than all before."""
    return (
        # a figure is loose only if its excess is this multiple of rounding in double precision
        new.figure - new.exact > 1000 * rounding_error
        and new.exact > 0
        and new.ratio < math.inf
        and (found.highest is None or new.ratio > found.highest.ratio)
    )


def narrowed(
    found: SearchState,
    violation_at: Callable[[Point], FigureComparison | None],
    parameters: Sequence[Parameter],
    seconds: float,
) -> SearchState:
    """Return the state of a search with its violation, if there is one, at simpler parameters,
    found in this time: short lists, defaults, round numbers. At least a tenth of the relative
    deficit is kept.
    """
    if found.violation is None:
        return found
    least, end = (1 - found.violation.ratio) / 10, time.monotonic() + seconds

    def simpler(violation: FigureComparison) -> Iterator[FigureComparison]:
        at = violation.at
        longest = max((len(value) for value in at.values() if isinstance(value, tuple)), default=0)
        shorter_lists = (
            {
                key: value[:length] if isinstance(value, tuple) else value
                for key, value in at.items()
            }
            for length in range(1, longest)
        )
        simpler_values = (
            {**at, parameter.name: value}
            for parameter in parameters
            for value in _simpler(parameter, at[parameter.name])
        )
        return filter(None, map(violation_at, chain(shorter_lists, simpler_values)))

    violation = shrunk(
        found.violation,
        simpler,
        lambda comparison: 1 - comparison.ratio >= least,
        lambda: time.monotonic() > end,
    )
    return replace(found, violation=violation)


def _simpler(parameter: Parameter, value: Any) -> Iterator[Any]:
    """Yield the values of a parameter that are simpler than this one, the simplest first."""
    if parameter.kind == "list":
        rounded = tuple(float(f"{x:.1g}") for x in value)
        if rounded != value:
            yield rounded
        return
    known = [
        1.0,
        *([] if parameter.default is None else [parameter.default]),
        *(float(f"{value:.{digits}g}") for digits in (1, 2, 3)),
    ]
    if parameter.kind == "integer":
        known = [10.0 ** math.floor(math.log10(max(value, 1))), *known]
    if parameter.kind == "order":
        known = [1.5, 2.0, 2.5, math.floor(value) + 0.5, round(value), *known]
    for candidate in known:
        if candidate == value:
            return
        if parameter.low <= candidate <= parameter.high:
            yield int(candidate) if parameter.kind == "integer" else candidate


def points(parameters: Sequence[Parameter], rng: np.random.Generator) -> Iterator[Point]:
    """Yield combinations of extreme and usual values in random order, then random points without
    end.
    """
    if not parameters:
        yield {}
        return
    corners = [_values(parameter, rng) for parameter in parameters]
    total = math.prod(map(len, corners))
    for index in (
        rng.permutation(total)[:_CORNERS] if total < 10**6 else rng.integers(total, size=_CORNERS)
    ):
        places = np.unravel_index(int(index), [len(values) for values in corners])
        yield _consistent(
            {
                p.name: values[place]
                for p, values, place in zip(parameters, corners, places, strict=True)
            },
            rng,
        )
    while True:
        yield _consistent(
            {parameter.name: _random(parameter, rng) for parameter in parameters}, rng
        )


def _consistent(at: dict[str, Any], rng: np.random.Generator) -> Point:
    """Return a point whose lists have equal lengths: often a few entries, sometimes many."""
    length = int(
        rng.integers(1, _DIFFERENT + 1)
        if rng.random() < 0.6
        else rng.integers(_DIFFERENT, _LIST + 1)
    )
    return {key: value[:length] if isinstance(value, tuple) else value for key, value in at.items()}


def _values(parameter: Parameter, rng: np.random.Generator) -> list[Any]:
    """Return extreme and usual values of a parameter."""
    low, high = parameter.low, parameter.high
    if low == high:
        return [_typed(parameter, low)]
    if parameter.kind == "list":
        return [
            (low,) * _LIST,
            (high,) * _LIST,
            (high, *(low,) * (_LIST - 1)),
            (high, *(math.sqrt(low * high),) * (_LIST - 1)),
            *(_random(parameter, rng) for _ in range(4)),
        ]
    if parameter.kind == "order":
        return [
            float(x)
            for x in (1.01, 1.1, 1.5, 2, 2.5, 3, 4.5, 8, 16.5, 32, 63.7, 64, 128.5, 256, 512)
            if low <= x <= high
        ] or [low, high]
    middle = math.sqrt(low * high)
    usual = {low, high, middle, math.sqrt(low * middle), math.sqrt(middle * high)} | {
        x for x in (1.0, 0.01) if low < x < high
    }
    if parameter.default is not None:
        usual.add(parameter.default)
    return sorted({_typed(parameter, x) for x in usual})


def _typed(parameter: Parameter, value: float) -> Any:
    return round(value) if parameter.kind == "integer" else float(value)


def _random(parameter: Parameter, rng: np.random.Generator) -> Any:
    """Return a random value, uniform in its logarithm, or a hint; half of the orders are whole
    numbers, and lists end in equal entries.
    """
    logs = math.log(parameter.low), math.log(parameter.high)
    if parameter.kind == "list":
        different = np.exp(rng.uniform(*logs, size=int(rng.integers(1, _DIFFERENT + 1)))).tolist()
        return tuple(different + different[-1:] * (_LIST - len(different)))
    # probability of a value from the constants of the code
    if parameter.hints and rng.random() < 0.2:
        return _typed(parameter, rng.choice(parameter.hints))
    value = math.exp(rng.uniform(*logs))
    if parameter.kind == "order" and rng.random() < 0.5:
        value = max(round(value), 2)
    return _typed(parameter, min(max(value, parameter.low), parameter.high))


def _near(at: Point, parameters: Sequence[Parameter], rng: np.random.Generator) -> Point:
    """Return a random point close to `at`."""
    found: dict[str, Any] = {}
    for parameter in parameters:
        value = at[parameter.name]
        if parameter.kind == "list":
            moves = {
                x: min(max(x * math.exp(rng.normal(0, 0.3)), parameter.low), parameter.high)
                for x in value
            }
            found[parameter.name] = tuple(moves[x] for x in value)
        elif value <= 0 or rng.random() < 0.3:
            found[parameter.name] = value
        else:
            moved = min(max(value * math.exp(rng.normal(0, 0.3)), parameter.low), parameter.high)
            found[parameter.name] = _typed(parameter, moved)
    return found


def require_inside(parameter: Parameter, value: Any) -> None:
    """Raise InvalidArgument unless a search may use a recorded value: a file must not start larger
    computations.
    """
    values = value if isinstance(value, tuple) else (value,)
    # largest length of a list in a witness
    right = isinstance(value, tuple) is (parameter.kind == "list") and 0 < len(values) <= 48
    whole = parameter.kind != "integer" or float(value) == int(value)
    # parameters of a witness may lie outside of the default ranges by these factors
    lowest = max(parameter.low / 1e3, parameter.least)
    highest = min(parameter.high * (100 if parameter.kind == "integer" else 1e3), parameter.most)
    inside = all(x == parameter.default or lowest <= x <= highest for x in values)
    if not (right and whole and inside):
        raise InvalidArgument(
            f"at.{parameter.name} must lie near [{parameter.low:g}, {parameter.high:g}], got "
            f"{short_repr(value)}"
        )


def question_of(
    function: Callable[..., Any],
    mechanism: Any,
    returns: Any,
    parameters: Any = None,
    ranges: Any = None,
) -> tuple[Question, Mapping[str, str]]:
    """Return the question of an audit, and the parameter of each argument of the function. Raise
    InvalidArgument if they do not fit.
    """
    require_one_of("mechanism", mechanism, (*MECHANISMS, *GAME_FIGURES), OWNER)
    require_one_of(
        "returns", returns, tuple(key for key in FIGURES if key not in GAME_FIGURES.values()), OWNER
    )
    reference = MECHANISMS[mechanism]
    if returns == "noise" and not reference.noise:
        raise InvalidArgument(
            f"{OWNER}: returns must not be 'noise' for {mechanism}, which has no noise parameter"
        )
    known = {
        p.name: p
        for p in (*reference.parameters, *FIGURES[returns].queries)
        if not (returns == "noise" and p.name == reference.noise)
    }
    needed = [p.name for p in known.values() if p.default is None]
    names = arguments_of(function, parameters, list(known), needed, mechanism)
    constants = [
        float(x) for x in constants_of(function) if isinstance(x, int | float) and 0 < abs(x) < 1e15
    ]
    searched = tuple(
        _hinted(_in_range(known[key], (ranges or {}).get(key)), constants)
        for key in dict.fromkeys(names.values())
    )
    if ranges is not None:
        _require_ranges(ranges, names.values())
    fixed = {
        p.name: int(p.default) if p.kind == "integer" else p.default
        for p in known.values()
        if p.default is not None
    }
    return Question(reference, returns, searched, fixed, caller(function, names)), names


def _require_ranges(ranges: Any, known: Collection[str]) -> None:
    """Raise InvalidArgument unless `ranges` is a dict whose keys are known parameters."""
    if not isinstance(ranges, Mapping):
        raise InvalidArgument(
            f"{OWNER}: ranges must be a dict of (low, high), got {short_repr(ranges)}"
        )
    for key in ranges:
        if key not in known:
            raise InvalidArgument(
                f"{OWNER}: ranges must name parameters of the function "
                f"({', '.join(known)}), got {short_repr(key)}"
            )


def _hinted(parameter: Parameter, constants: Sequence[float]) -> Parameter:
    """Return a parameter with more values to try: the constants of the code in its range, and
    values next to them.
    """
    near = {
        x + move * (1 if parameter.kind == "integer" else 1e-3 * x)
        for x in constants
        for move in (-1, 0, 1)
    }
    near = {x for x in near if parameter.low <= x <= parameter.high}
    return replace(parameter, hints=tuple(sorted(near)) if parameter.kind != "list" else ())


def arguments_of(
    function: Callable[..., Any],
    parameters: Any,
    known: Sequence[str],
    needed: Sequence[str],
    mechanism: str,
) -> Mapping[str, str]:
    """Return the parameter of each argument of a function. Raise InvalidArgument unless they are
    known, and the needed ones are among them.
    """
    if parameters is None:
        try:
            arguments = inspect.signature(function).parameters
        except (TypeError, ValueError):
            raise InvalidArgument(
                f"{OWNER}: parameters must be given, because the function has no signature"
            ) from None
        parameters = {key: key for key in arguments if key in known}
    if not isinstance(parameters, Mapping) or not all(
        isinstance(text, str) for pair in parameters.items() for text in pair
    ):
        raise InvalidArgument(
            f"{OWNER}: parameters must map names of arguments to names of parameters, got "
            f"{short_repr(parameters)}"
        )
    for key, value in parameters.items():
        if value not in known:
            raise InvalidArgument(
                f"{OWNER}: parameters[{key!r}] must be one of {', '.join(known)}, got {value!r}"
            )
    missing = [name for name in needed if name not in parameters.values()]
    if missing:
        raise InvalidArgument(
            f"{OWNER}: parameters must name an argument for {', '.join(missing)} of "
            f"{mechanism}, got {short_repr(dict(parameters))}"
        )
    return dict(parameters)


def _in_range(parameter: Parameter, limits: Any) -> Parameter:
    """Return a parameter with the given range."""
    if limits is None:
        return parameter
    try:
        low, high = (float(limit) for limit in limits)
    except (TypeError, ValueError):
        low, high = 1.0, 0.0
    if not (0 < low <= high < math.inf and parameter.least <= low and high <= parameter.most):
        raise InvalidArgument(
            f"{OWNER}: ranges[{parameter.name!r}] must be (low, high) with 0 < low <= high, from "
            f"{parameter.least:.9g} to {parameter.most:g}, got {short_repr(limits)}"
        )
    keep = (
        parameter.default
        if parameter.default is not None and low <= parameter.default <= high
        else None
    )
    return replace(parameter, low=low, high=high, default=keep)


def caller(function: Callable[..., Any], names: Mapping[str, str]) -> Call:
    """Return a function that calls the accountant at several points, and returns numbers and
    exceptions.
    """

    def call(points: Sequence[Point]) -> Sequence[Any]:
        every = [
            {argument: at[parameter] for argument, parameter in names.items()}
            for at in map(plain, points)
        ]
        together = getattr(function, "call_each", None)
        return (
            together(every)
            if together is not None
            else [_outcome(function, arguments) for arguments in every]
        )

    return call


def _outcome(function: Callable[..., Any], arguments: Json) -> Any:
    try:
        return function(**arguments)
    except Exception as error:  # an accountant may raise anything at extreme parameters
        return error


def plain(at: Mapping[str, Any]) -> Json:
    """Return the parameters of a point in JSON types."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in at.items()}


def read_point(at: Json) -> Point:
    """Return the parameters of a point that `plain` wrote."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in at.items()}
