"""Search for the parameters at which an accountant's figure is lowest, compared with the exact one:
the question of an audit, the search, and narrowing to simple parameters.
"""

from __future__ import annotations

import inspect
import itertools
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpwitness.auditors.functions.accountant_figures import (
    FIGURES,
    GAME,
    GAME_FIGURE,
    MECHANISMS,
    Parameter,
    Point,
    Reference,
    allowed_error,
    exact_figure,
    is_below,
)
from dpwitness.auditors.functions.accountant_profiles import Unavailable
from dpwitness.auditors.search.maximize import Budget, Scored, maximize, shrunk
from dpwitness.auditors.workers.descriptions import constants_of
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import (
    InvalidArgument,
    error_text,
    require_one_of,
    require_that,
    require_type,
    short_repr,
)


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
OWNER = "audit_accountant"


@dataclass(frozen=True, slots=True)
class FigureComparison:
    """Figure of the accountant at one point, and the exact figure, which is a rigorous lower bound.

    The exact epsilon is 0 if it is not positive. Only with a negative figure, a negative exact
    epsilon is kept. Without a comparison, `exact` is NaN, and `failures` has the problems of failed
    calls, or the exact figure is unavailable.
    """

    at: Point
    figure: float = math.nan
    exact: float = math.nan
    score: float = math.inf  # small for a figure that is low in comparison with the exact one
    violated: bool = False
    loose: bool = False
    failures: tuple[str, ...] = ()

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


class Question(ABC):
    """Question of a search to an accountant: the points to try, and the comparison of its figures
    with exact figures.
    """

    __slots__ = ()
    # parameters whose values may be made simpler; none of a game
    parameters: tuple[Parameter, ...]

    @abstractmethod
    def points(self, best: Sequence[Scored[Point]], rng: np.random.Generator) -> Iterator[Point]:
        """Yield points to try, given the best so far: the space of `maximize`."""

    @abstractmethod
    def compared(self, points: Iterator[Point]) -> Iterator[FigureComparison]:
        """Yield comparisons of the accountant's figure with the exact figure at points; the
        accountant is called in batches.
        """

    def comparison(self, at: Point) -> FigureComparison:
        """Return the comparison of the accountant's figure with the exact figure at one point."""
        return next(iter(self.compared(iter([at]))))

    @abstractmethod
    def require_point(self, at: Point) -> None:
        """Raise InvalidArgument unless a witness may have this point: a file must not start larger
        computations.
        """


@dataclass(frozen=True, slots=True)
class FigureQuestion(Question):
    """Mechanism, figure, parameters with their ranges, and the function that calls the
    accountant.
    """

    reference: Reference
    returns: str
    parameters: tuple[Parameter, ...]
    fixed: Point
    call: Call

    def points(self, best: Sequence[Scored[Point]], rng: np.random.Generator) -> Iterator[Point]:
        """Yield extreme values, then random ones; half of the later points are near the best."""
        for number, at in enumerate(points(self.parameters, rng)):
            # points near the lowest figure are no better than others if that is exact up to 1e-4
            inexact = best and 1e-4 < abs(best[0].value + 1) < math.inf
            near = number >= 64 and number % 2 == 0 and inexact
            yield _near(best[0].candidate, self.parameters, rng) if near else at

    def require_point(self, at: Point) -> None:
        """Raise InvalidArgument unless all parameters are within a factor of 1000 of their ranges
        (100 for whole numbers above), and in the range in which the figure is defined.
        """
        known = {parameter.name: parameter for parameter in self.parameters}
        require_that(
            set(at) == set(known),
            f"at must have the parameters {', '.join(known)}, got {', '.join(map(str, at))}",
        )
        for key, value in at.items():
            _require_inside(known[key], value)

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

    def compared(self, points: Iterator[Point]) -> Iterator[FigureComparison]:
        """Yield comparisons with the exact figure. For quick figures (RDP and zCDP), a larger batch
        is computed, and only the most suspicious figures of the batch are compared.
        """
        size = _BATCH * (4 if self.returns in ("rdp", "zcdp") else 1)
        while batch := list(itertools.islice(points, size)):
            answers = list(zip(batch, self.call(batch), strict=True))
            # a stable sort: figures that no mechanism can have first; the total is the usual number
            answers.sort(key=lambda pair: not number_of(pair[1])[0] <= 0)
            for at, answer in answers[:_BATCH]:
                yield self._comparison(at, answer)

    def _comparison(self, at: Point, answer: Any) -> FigureComparison:
        """Return the comparison of one answer: a number, or an exception."""
        figure, failure = number_of(answer)
        if failure:
            return FigureComparison(at, failures=(failure,))
        whole = self.complete(at)
        # accuracy of an exact figure that takes long to compute
        accuracy = 1e-3 if self.returns == "noise" and whole.get("steps", 1) > 1 else 1e-12
        try:
            exact = exact_figure(self.returns, self.reference, whole, accuracy, signed=figure < 0)
            deficit = max(0.0, exact - figure)
            violated = deficit > 0 and self.violated(figure, at)
        except (Unavailable, ValueError, OverflowError):
            return FigureComparison(at)
        if not violated and deficit > 2 * allowed_error(self.returns, figure):
            return FigureComparison(at)  # enclosures do not decide
        rounding = FIGURES[self.returns].rounding
        new = FigureComparison(at, figure, exact)
        score = (figure + rounding) / (exact + rounding) if figure >= 0 else new.ratio
        # a figure is loose only if its excess is a multiple of rounding in double precision
        loose = figure - exact > 1000 * rounding and exact > 0 and new.ratio < math.inf
        return replace(
            new, score=score if math.isfinite(exact) else 1.0, violated=violated, loose=loose
        )


def search(
    question: Question, *, seconds: float, evaluations: int, seed: int
) -> tuple[list[FigureComparison], FigureComparison | None]:
    """Compare the accountant with the exact figure at extreme, random and promising points, until
    the budget is spent. Return the comparisons, and the first violation at simple parameters.
    """
    found = list[FigureComparison]()

    def score(points: Iterator[Point]) -> Iterator[tuple[Point, float]]:
        for new in question.compared(points):
            found.append(new)
            yield new.at, math.inf if new.violated else -new.score

    maximize(score, question.points, Budget(seconds, evaluations), seed, keep=1)
    violation = next((each for each in found if each.violated), None)
    return found, None if violation is None else _narrowed(violation, question, seconds / 2)


def _narrowed(violation: FigureComparison, question: Question, seconds: float) -> FigureComparison:
    """Return a violation at simpler parameters, found in this time: defaults, round numbers. At
    least a tenth of the relative deficit is kept.
    """
    least, end = (1 - violation.ratio) / 10, time.monotonic() + seconds

    def simpler(violation: FigureComparison) -> Iterator[FigureComparison]:
        at = violation.at
        simpler_values = (
            {**at, parameter.name: value}
            for parameter in question.parameters
            for value in _simpler(parameter, at[parameter.name])
        )
        again = map(question.comparison, simpler_values)
        return (comparison for comparison in again if comparison.violated)

    return shrunk(
        violation,
        simpler,
        lambda comparison: 1 - comparison.ratio >= least,
        lambda: time.monotonic() > end,
    )


def _simpler(parameter: Parameter, value: Any) -> Iterator[Any]:
    """Yield the values of a parameter that are simpler than this one, the simplest first."""
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
    corners = [_values(parameter) for parameter in parameters]
    total = math.prod(map(len, corners))
    for index in (
        rng.permutation(total)[:_CORNERS] if total < 10**6 else rng.integers(total, size=_CORNERS)
    ):
        places = np.unravel_index(int(index), [len(values) for values in corners])
        chosen = zip(parameters, corners, places, strict=True)
        yield {p.name: values[place] for p, values, place in chosen}
    while True:
        yield {parameter.name: _random(parameter, rng) for parameter in parameters}


def _values(parameter: Parameter) -> list[Any]:
    """Return extreme and usual values of a parameter."""
    low, high = parameter.low, parameter.high
    if low == high:
        return [_typed(parameter, low)]
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
    numbers.
    """
    logs = math.log(parameter.low), math.log(parameter.high)
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
        if value <= 0 or rng.random() < 0.3:
            found[parameter.name] = value
        else:
            moved = min(max(value * math.exp(rng.normal(0, 0.3)), parameter.low), parameter.high)
            found[parameter.name] = _typed(parameter, moved)
    return found


def _require_inside(parameter: Parameter, value: Any) -> None:
    """Raise InvalidArgument unless a search may use a recorded value."""
    whole = parameter.kind != "integer" or float(value) == int(value)
    # parameters of a witness may lie outside of the default ranges by these factors
    lowest = max(parameter.low / 1e3, parameter.least)
    highest = min(parameter.high * (100 if parameter.kind == "integer" else 1e3), parameter.most)
    form = "a whole number" if parameter.kind == "integer" else "a number"
    require_that(
        whole and (value == parameter.default or lowest <= value <= highest),
        f"at.{parameter.name} must be {form} in [{lowest:g}, {highest:g}], got {short_repr(value)}",
    )


def question_of(
    function: Callable[..., Any],
    mechanism: Any,
    returns: Any,
    parameters: Any = None,
    ranges: Any = None,
) -> tuple[FigureQuestion, Mapping[str, str]]:
    """Return the validated question of an audit (mechanism, figure, parameters and function), and
    the mechanism's parameter for each argument of the function. Raise InvalidArgument if they do
    not fit.
    """
    require_one_of("mechanism", mechanism, (*MECHANISMS, GAME), OWNER)
    figures = [key for key in FIGURES if key != GAME_FIGURE]
    require_one_of("returns", returns, figures, OWNER)
    reference, of_noise = MECHANISMS[mechanism], returns == "noise"
    require_that(
        reference.noise or not of_noise,
        f"returns must not be 'noise' for {mechanism}, which has no noise parameter",
        OWNER,
    )
    known = {p.name: p for p in (*reference.parameters, *FIGURES[returns].queries)}
    if of_noise:
        del known[reference.noise]
    defaults = {p.name: p.default for p in known.values() if p.default is not None}
    names = arguments_of(function, parameters, list(known), known.keys() - defaults, mechanism)
    limits = require_type(
        "ranges", {} if ranges is None else ranges, Mapping, "be a dict of (low, high)", OWNER
    )
    require_that(
        set(limits) <= set(names.values()),
        f"ranges must name parameters of the function ({', '.join(names.values())}), got "
        f"{short_repr(list(limits))}",
        OWNER,
    )
    constants = [
        float(x) for x in constants_of(function) if isinstance(x, int | float) and 0 < abs(x) < 1e15
    ]
    searched = tuple(
        _hinted(_in_range(known[key], limits.get(key)), constants)
        for key in dict.fromkeys(names.values())
    )
    fixed = {
        key: int(value) if known[key].kind == "integer" else value
        for key, value in defaults.items()
    }
    return FigureQuestion(reference, returns, searched, fixed, caller(function, names)), names


def _hinted(parameter: Parameter, constants: Sequence[float]) -> Parameter:
    """Return a parameter with more values to try: the constants of the code in its range, and
    values next to them.
    """
    near = {
        x + move * (1 if parameter.kind == "integer" else 1e-3 * x)
        for x in constants
        for move in (-1, 0, 1)
    }
    inside = sorted(x for x in near if parameter.low <= x <= parameter.high)
    return replace(parameter, hints=tuple(inside))


def arguments_of(
    function: Callable[..., Any],
    parameters: Any,
    known: Sequence[str],
    needed: Collection[str],
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
    require_that(
        isinstance(parameters, Mapping) and all(isinstance(key, str) for key in parameters),
        "parameters must map names of arguments to names of parameters, got "
        f"{short_repr(parameters)}",
        OWNER,
    )
    for key, value in parameters.items():
        require_one_of(f"parameters[{key!r}]", value, known, OWNER)
    missing = [name for name in known if name in needed and name not in parameters.values()]
    require_that(
        not missing,
        f"parameters must name an argument for {', '.join(missing)} of {mechanism}, got "
        f"{short_repr(dict(parameters))}",
        OWNER,
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
    require_that(
        0 < low <= high < math.inf and parameter.least <= low and high <= parameter.most,
        f"ranges[{parameter.name!r}] must be (low, high) with 0 < low <= high, from "
        f"{parameter.least:.9g} to {parameter.most:g}, got {short_repr(limits)}",
        OWNER,
    )
    inside = parameter.default is not None and low <= parameter.default <= high
    return replace(parameter, low=low, high=high, default=parameter.default if inside else None)


def caller(function: Callable[..., Any], names: Mapping[str, str]) -> Call:
    """Return a function that calls the accountant at several points, and returns numbers and
    exceptions.
    """
    together = getattr(function, "call_each", None)

    def outcome(arguments: Json) -> Any:
        try:
            return function(**arguments)
        except Exception as error:  # an accountant may raise anything at extreme parameters
            return error

    def call(points: Sequence[Point]) -> Sequence[Any]:
        every = [
            {argument: at[parameter] for argument, parameter in names.items()} for at in points
        ]
        return [outcome(each) for each in every] if together is None else together(every)

    return call
