"""Audit of an accountant: a figure below the exact one is a violation, at any parameters."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dpwitness.auditors.functions.accounting.games import GAMES
from dpwitness.auditors.functions.accounting.mechanisms import (
    FIGURES,
    MECHANISMS,
    Parameter,
    Point,
    Reference,
)
from dpwitness.auditors.functions.accounting.result import AccountantResult, loose_note
from dpwitness.auditors.functions.accounting.search import (
    Call,
    Comparison,
    Found,
    Question,
    compared,
    narrowed,
    search,
)
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.auditors.workers.constants import constants_of
from dpwitness.core.protocols.mechanism import name_of
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import (
    InvalidArgument,
    require_callable,
    require_integer,
    require_one_of,
    require_positive,
    require_type,
    short_repr,
)

_OWNER = "audit_accountant"
_GAME_FIGURES = tuple(game.returns for game in GAMES.values())
_MAX_LIST = 48  # largest length of a list in a witness
_LARGEST_HINT = 1e15
_BEYOND = 1e3  # factor by which parameters of a witness may lie outside the default ranges


def audit_accountant(
    function: Callable[..., Any],
    mechanism: str,
    returns: str,
    parameters: Mapping[str, str] | None = None,
    *,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    seconds: float = 20.0,
    evaluations: int = 2000,
    seed: int = 0,
    name: str | None = None,
) -> AccountantResult:
    """Search for parameters at which an accountant's figure is below the exact one.

    A figure is too low if the exact figure exceeds it by more than 1e-9 of the figure, and by more
    than the rounding of double precision (1e-15 for delta, 1e-12 otherwise). The exact figure is
    enclosed in ball arithmetic, or bounded from below by exact integer arithmetic for compositions;
    so rounding in this audit cannot cause a violation. A figure above 1.1 times the exact one is a
    note. A negative epsilon is compared with the exact one, which is negative where delta exceeds
    the total variation distance; other negative figures are too low. Bools, texts and complex
    numbers are not figures: they count as failed calls.

    Parameters
    ----------
    function : callable
        Accountant: called with keyword arguments, it returns a number. A call that raises is
        skipped and counted. An object with a method `call_each`, which maps a list of keyword
        arguments to a list of numbers and exceptions, is called in batches.
    mechanism : str
        Mechanism of the figure: gaussian (sigma, sensitivity, steps), gdp (mu, steps), zcdp (rho),
        renyi (order0, rdp), laplace (scale, sensitivity, steps), geometric (scale, steps),
        discrete-gaussian (sigma), composition (epsilon0, delta0, steps), heterogeneous-composition
        (epsilons, deltas), subsampled-response (epsilon0, q), subsampled-gaussian (sigma, q, steps;
        Poisson sampling, one record added or removed), without-replacement-gaussian (sigma, q,
        steps; one record replaced) or with-replacement-gaussian (sigma, draws, records, steps; one
        record replaced). Sigma is the noise's standard deviation over the distance by which one
        record moves the sum. With "gaussian-canaries", the function is a tool that returns a lower
        confidence bound on epsilon from `in_scores`, `out_scores`, `significance` and `delta`. With
        "privacy-filter", the function is a filter: it returns the number of mechanisms that it
        admits, from the lists `epsilons` and `deltas`, under the budget `epsilon` and `delta`.
    returns : {"epsilon", "delta", "rdp", "zcdp", "mu", "noise", "lower-epsilon", "admitted"}
        Figure that the accountant returns: epsilon at `delta`, delta at `epsilon`, Rényi divergence
        at `order`, rho of zero-concentrated privacy, mu of Gaussian privacy, or the noise (sigma,
        scale) at `epsilon` and `delta`. For a lower bound on epsilon, the figure is the claimed
        error probability, and the exact figure is the probability that the bound exceeds the true
        epsilon. For a filter, the figure is the delta of the budget, and the exact figure is that
        of the mechanisms that an adaptive adversary gets.
    parameters : dict, optional
        Parameter of the mechanism or of the figure that each argument of the function is. Default:
        the function's own argument names. Parameters that the function does not take have their
        defaults: one step, sensitivity 1, delta 0.
    ranges : dict, optional
        Lowest and highest value of parameters to search, for example ``{"q": (0.001, 0.1)}``.
        Default: wide ranges.
    seconds, evaluations : float, int
        Budgets of the search, in seconds and in calls. The search stops when one of them is spent,
        or at a violation.
    seed : int
        Seed of the search.
    name : str, optional
        Name of the accountant in the report.

    Returns
    -------
    AccountantResult
        Verdict, both figures, and the parameters that show a violation.

    Raises
    ------
    InvalidArgument
        If an argument is invalid, or a parameter that the mechanism or figure needs is not an
        argument of the function.

    References
    ----------
    Balle and Wang (2018), Theorem 8; Kairouz, Oh and Viswanath (2015), Theorem 3.3; Mironov, Talwar
    and Zhang (2019); Zhu, Dong and Wang (2022), Theorem 11.

    Examples
    --------
    >>> import math
    >>> def classic(epsilon, delta):
    ...     return math.sqrt(2 * math.log(1.25 / delta)) / epsilon
    >>> print(audit_accountant(classic, "gaussian", "noise",
    ...     ranges={"epsilon": (0.1, 1)}).verdict.value)
    NOT_REFUTED
    >>> print(audit_accountant(classic, "gaussian", "noise",
    ...     ranges={"epsilon": (5, 30)}).verdict.value)
    VIOLATED
    """
    require_callable("function", function, _OWNER)
    require_positive("seconds", seconds, _OWNER)
    evaluations = require_integer("evaluations", evaluations, _OWNER, most=10**9)
    seed = require_integer("seed", seed, _OWNER, least=0)
    require_type("name", name, str, "be a text", _OWNER, optional=True)
    begin = time.perf_counter()
    if mechanism in GAMES:
        call, names = _game_caller(function, mechanism, returns, parameters)
        found = GAMES[mechanism].search(call, names, seconds, evaluations, seed)
    else:
        question, names = question_of(function, mechanism, returns, parameters, ranges)
        found = search(question, seconds=seconds, evaluations=evaluations, seed=seed)
        if found.violation is not None:
            found = replace(found, violation=narrowed(question, found.violation))
    result = _result(function, mechanism, returns, names, found, seed, name or name_of(function))
    return replace(result, seconds=time.perf_counter() - begin)


def compare_at(
    function: Callable[..., Any],
    mechanism: Any,
    returns: Any,
    parameters: Any,
    at: Point,
    seed: int,
    name: str,
    begin: float,
) -> AccountantResult:
    """Return the result of one comparison, at the parameters of a witness. Raise InvalidArgument if
    they are not those of the function.
    """
    if mechanism in GAMES:
        call, names = _game_caller(function, mechanism, returns, parameters)
        found = GAMES[mechanism].compared(Found(), call, names, GAMES[mechanism].require_point(at))
        return replace(
            _result(function, mechanism, returns, names, found, seed, name),
            seconds=time.perf_counter() - begin,
        )
    question, names = question_of(function, mechanism, returns, parameters)
    known = {parameter.name: parameter for parameter in question.parameters}
    if set(at) != set(known):
        raise InvalidArgument(
            f"at must have the parameters {', '.join(known)}, got {', '.join(map(str, at))}"
        )
    for key, value in at.items():
        _require_inside(known[key], value)
    found = compared(Found(), question, at, question.call([at])[0])
    return replace(
        _result(function, mechanism, returns, names, found, seed, name),
        seconds=time.perf_counter() - begin,
    )


def _require_inside(parameter: Parameter, value: Any) -> None:
    """Raise InvalidArgument unless a search may use a recorded value: a file must not start larger
    computations.
    """
    values = value if isinstance(value, tuple) else (value,)
    right = isinstance(value, tuple) is (parameter.kind == "list") and 0 < len(values) <= _MAX_LIST
    whole = parameter.kind != "integer" or float(value) == int(value)
    widest = (
        parameter.low / _BEYOND,
        parameter.high * (100 if parameter.kind == "integer" else _BEYOND),
    )
    widest = max(widest[0], parameter.least), min(widest[1], parameter.most)
    inside = all(x == parameter.default or widest[0] <= x <= widest[1] for x in values)
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
    require_one_of("mechanism", mechanism, (*MECHANISMS, *GAMES), _OWNER)
    require_one_of(
        "returns", returns, tuple(key for key in FIGURES if key not in _GAME_FIGURES), _OWNER
    )
    reference = MECHANISMS[mechanism]
    if returns == "noise" and not reference.noise:
        raise InvalidArgument(
            f"{_OWNER}: returns must not be 'noise' for {mechanism}, which has no noise parameter"
        )
    known = _known(reference, returns)
    names = _arguments(function, parameters, known)
    missing = [p.name for p in known.values() if p.name not in names.values() and p.default is None]
    if missing:
        raise InvalidArgument(
            f"{_OWNER}: parameters must name an argument for {', '.join(missing)} of "
            f"{mechanism}, got {short_repr(dict(names))}"
        )
    constants = [
        float(x)
        for x in constants_of(function)
        if isinstance(x, int | float) and 0 < abs(x) < _LARGEST_HINT
    ]
    searched = tuple(
        _hinted(_in_range(known[key], (ranges or {}).get(key)), constants)
        for key in dict.fromkeys(names.values())
    )
    _require_ranges(ranges, names, known)
    fixed = {
        p.name: int(p.default) if p.kind == "integer" else p.default
        for p in known.values()
        if p.default is not None
    }
    return Question(reference, returns, searched, fixed, _caller(function, names)), names


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


def _known(reference: Reference, returns: str) -> dict[str, Parameter]:
    """Return the parameters of a mechanism and of a figure, by name."""
    every = (*reference.parameters, *FIGURES[returns].queries)
    return {p.name: p for p in every if not (returns == "noise" and p.name == reference.noise)}


def _arguments(
    function: Callable[..., Any], parameters: Any, known: Mapping[str, Parameter]
) -> Mapping[str, str]:
    """Return the parameter of each argument of a function."""
    if parameters is None:
        try:
            arguments = inspect.signature(function).parameters
        except (TypeError, ValueError):
            raise InvalidArgument(
                f"{_OWNER}: parameters must be given, because the function has no signature"
            ) from None
        parameters = {key: key for key in arguments if key in known}
    if not isinstance(parameters, Mapping) or not all(
        isinstance(text, str) for pair in parameters.items() for text in pair
    ):
        raise InvalidArgument(
            f"{_OWNER}: parameters must map names of arguments to names of parameters, got "
            f"{short_repr(parameters)}"
        )
    for key, value in parameters.items():
        if value not in known:
            raise InvalidArgument(
                f"{_OWNER}: parameters[{key!r}] must be one of {', '.join(known)}, got {value!r}"
            )
    return dict(parameters)


def _require_ranges(ranges: Any, names: Mapping[str, str], known: Mapping[str, Parameter]) -> None:
    if ranges is not None and not isinstance(ranges, Mapping):
        raise InvalidArgument(
            f"{_OWNER}: ranges must be a dict of (low, high), got {short_repr(ranges)}"
        )
    for key in ranges or {}:
        if key not in names.values():
            raise InvalidArgument(
                f"{_OWNER}: ranges must name parameters of the function "
                f"({', '.join(names.values())}), got {short_repr(key)}"
            )


def _in_range(parameter: Parameter, limits: Any) -> Parameter:
    """Return a parameter with the given range."""
    if limits is None:
        return parameter
    try:
        low, high = (float(limit) for limit in limits)
    except (TypeError, ValueError):
        low, high = 1.0, 0.0
    if not (0 < low <= high < math.inf and parameter.least <= low and high <= parameter.most):
        rule = f"0 < low <= high, from {parameter.least:.9g} to {parameter.most:g}"
        raise InvalidArgument(
            f"{_OWNER}: ranges[{parameter.name!r}] must be (low, high) with {rule}, got "
            f"{short_repr(limits)}"
        )
    keep = (
        parameter.default
        if parameter.default is not None and low <= parameter.default <= high
        else None
    )
    return replace(parameter, low=low, high=high, default=keep)


def _caller(function: Callable[..., Any], names: Mapping[str, str]) -> Call:
    """Return a function that calls the accountant at several points, and returns numbers and
    exceptions.
    """

    def call(points: Sequence[Point]) -> Sequence[Any]:
        every = [
            {argument: _plain(at[parameter]) for argument, parameter in names.items()}
            for at in points
        ]
        together = getattr(function, "call_each", None)
        return (
            together(every)
            if together is not None
            else [_outcome(function, arguments) for arguments in every]
        )

    return call


def _game_caller(
    function: Callable[..., Any], mechanism: str, returns: Any, parameters: Any
) -> tuple[Call, Mapping[str, str]]:
    """Return a function that calls the tool of a game, and the parameter of each of its
    arguments.
    """
    game = GAMES[mechanism]
    require_one_of("returns", returns, (game.returns,), _OWNER)
    names = _arguments(
        function, parameters, {name: Parameter(name, 0, 0) for name in game.arguments}
    )
    missing = [name for name in game.needed if name not in names.values()]
    if missing:
        raise InvalidArgument(
            f"{_OWNER}: parameters must name an argument for {', '.join(missing)}, got "
            f"{short_repr(dict(names))}"
        )
    together = getattr(function, "call_each", None)
    return together or (
        lambda every: [_outcome(function, dict(arguments)) for arguments in every]
    ), names


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _outcome(function: Callable[..., Any], arguments: Json) -> Any:
    try:
        return function(**arguments)
    except Exception as error:  # an accountant may raise anything at extreme parameters
        return error


def _result(
    function: Any,
    mechanism: str,
    returns: str,
    names: Mapping[str, str],
    found: Found,
    seed: int,
    name: str,
) -> AccountantResult:
    """Return the result of a search."""
    point = found.violation or found.lowest or Comparison({}, math.nan, math.nan)
    verdict = (
        Verdict.VIOLATED
        if found.violation
        else Verdict.NOT_REFUTED
        if found.lowest
        else Verdict.ERROR
    )
    highest = found.highest
    return AccountantResult(
        name=name,
        verdict=verdict,
        mechanism=mechanism,
        returns=returns,
        parameters=names,
        at=point.at,
        figure=point.figure,
        exact=point.exact,
        loosest=None
        if highest is None
        else {"at": highest.at, "figure": highest.figure, "exact": highest.exact},
        compared=found.compared,
        failed=found.failed,
        seed=seed,
        notes=_notes(found, returns),
        function=function,
    )


def _notes(found: Found, returns: str) -> tuple[str, ...]:
    """Return notes on failed calls, rounding, and loose figures; the cause of an error
    comes first.
    """
    notes = []
    if found.compared == 0:
        why = f": {found.failures[0]}" if found.failures else ""
        notes.append(
            f"no figure could be compared ({found.failed} calls failed, {found.unavailable} "
            f"exact figures unavailable){why}"
        )
    elif found.failed:
        notes.append(f"{found.failed} calls failed and were skipped: {'; '.join(found.failures)}")
    if found.rounding:
        allowed = f"rounding in double precision explains up to {FIGURES[returns].rounding:g}"
        notes.append(
            f"figures below the exact ones by rounding: {found.rounding}, by at most "
            f"{found.deficit:.2g} ({allowed})"
        )
    if found.negative:
        why = (
            "delta is at least 1 - e^epsilon there for every mechanism, and the given delta is "
            "as large as this one needs"
        )
        notes.append(f"negative figures that are not too low: {found.negative} ({why})")
    if found.violation is not None and returns == "epsilon" and found.violation.figure < 0:
        needed = -math.expm1(found.violation.figure)
        notes.append(
            f"a negative epsilon needs a delta of at least 1 - e^epsilon, here {needed:.6g}, "
            "and more for this mechanism"
        )
    if found.unavailable and found.compared:
        notes.append(
            f"{found.unavailable} exact figures could not be computed at extreme parameters "
            "and were skipped"
        )
    return (*notes, *loose_note(found.highest, returns))


def recheck(result: Json) -> bool:
    """Return whether exact arithmetic confirms a violation in JSON. Raise InvalidArgument if
    verdict and figures contradict each other.
    """
    verdict, name = result["verdict"], result.get("name", "")
    if verdict not in ("VIOLATED", "NOT_REFUTED", "ERROR"):
        raise InvalidArgument(
            f"result {name!r} is damaged or edited: an accountant cannot have the verdict {verdict}"
        )
    if (
        verdict == "ERROR"
        or result.get("mechanism") in GAMES
        or not isinstance(result.get("figure"), int | float)
    ):
        return False
    question, _ = question_of(
        _unused, result.get("mechanism"), result.get("returns"), result.get("parameters")
    )
    at = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in (result.get("at") or {}).items()
    }
    if question.violated(float(result["figure"]), at) is not (verdict == "VIOLATED"):
        raise InvalidArgument(
            f"result {name!r} is damaged or edited: verdict {verdict} contradicts the figure "
            f"{result['figure']!r}"
        )
    return bool(verdict == "VIOLATED")


def _unused(**arguments: Any) -> float:
    """Placeholder for the accountant, which a check of a written result does not call."""
    raise NotImplementedError
