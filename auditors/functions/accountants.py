"""Audit of an accountant: a figure below the exact one is a violation, at any parameters; and the
game that tests tools with lower confidence bounds on epsilon.

The game gives the tool scores of canaries, and computes the exact error probability of its bound.
The scores are 1 if a normal variable exceeds a threshold, and 0 otherwise; the mean of the variable
is mu for canaries inside, and 0 for those outside. So the mechanism is Gaussian with this mu, its
counts are binomial, and the probability that the bound exceeds the true epsilon is a finite sum.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from flint import arb, ctx, fmpz

from dpwitness.auditors.functions.accountant_figures import FIGURES, GAME, GAME_FIGURE, Point
from dpwitness.auditors.functions.accountant_search import (
    OWNER,
    Call,
    FigureComparison,
    Question,
    arguments_of,
    caller,
    number_of,
    question_of,
    search,
)
from dpwitness.auditors.search.catalogue import require_settings
from dpwitness.auditors.search.maximize import Scored
from dpwitness.auditors.witnesses.result import FunctionResult, named
from dpwitness.auditors.witnesses.verdicts import Verdict, strict
from dpwitness.core.balls.ball import PRECISION, Ball, down
from dpwitness.core.balls.profiles import GaussianProfile, normal_cdf
from dpwitness.core.protocols import name_of
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import (
    require_callable,
    require_one_of,
    require_that,
    short_repr,
)


@dataclass(frozen=True, slots=True)
class CanaryGame(Question):
    """Lower confidence bound on epsilon from scores of canaries.

    In a comparison, the figure is the error probability that the tool claims, and the exact figure
    is a lower bound on the true one.
    """

    parameters = ()

    call: Call

    def compared(self, points: Iterator[Point]) -> Iterator[FigureComparison]:
        """Yield the comparison of the claimed with the true probability at each point."""
        for at in points:
            exact, problems = self.exact(at)
            new = FigureComparison(at, at["significance"], exact, failures=tuple(problems))
            violated = exact > new.figure * (1 + 1e-9) + 1e-15
            yield replace(new, score=new.ratio, violated=violated)

    def points(self, best: Sequence[Scored[Point]], rng: np.random.Generator) -> Iterator[Point]:
        """Yield the laws of the scores to try, with few canaries first."""
        for canaries, significance, delta, mu, threshold in itertools.product(
            (5, 10), (0.05, 0.01), (1e-5, 1e-3), (1e-6, 0.5, 2.0), (0.0, 1.5, -1.5)
        ):
            yield {
                "canaries": canaries,
                "mu": mu,
                "threshold": threshold,
                "significance": significance,
                "delta": delta,
            }

    def require_point(self, at: Point) -> None:
        """Raise InvalidArgument unless the law of a witness is one that may be tried."""
        # largest number of canaries on each side in a witness
        rules: dict[str, Callable[[Any], bool]] = {
            "canaries": lambda v: isinstance(v, int) and 1 <= v <= 30,
            "mu": lambda v: 0 < v <= 30,
            "threshold": lambda v: abs(v) <= 30,
            "significance": lambda v: 0 < v < 1,
            "delta": lambda v: 0 < v < 1,
        }
        for key, rule in rules.items():
            value = at.get(key)
            require_that(
                type(value) in (int, float) and rule(value),
                f"at.{key} must be in its range (canaries 1 to 30, mu in (0, 30], threshold in "
                f"[-30, 30], significance and delta in (0, 1)), got {short_repr(value)}",
            )

    def exact(self, at: Point) -> tuple[float, list[str]]:
        """Return the probability that the tool's bound exceeds the true epsilon."""
        total = at["canaries"]
        pairs = list(itertools.product(range(total + 1), range(total + 1)))
        scores = [[1.0] * count + [0.0] * (total - count) for count in range(total + 1)]
        answers = map(
            number_of,
            self.call([{**at, "in_scores": scores[i], "out_scores": scores[j]} for i, j in pairs]),
        )
        problems, error = list[str](), arb(0)
        with ctx.workprec(PRECISION):
            mu, threshold, delta = arb(at["mu"]), arb(at["threshold"]), arb(at["delta"])
            profile = GaussianProfile(mu)
            inside, outside = normal_cdf(mu - threshold), normal_cdf(-threshold)
            for (i, j), (bound, problem) in zip(pairs, answers, strict=True):
                if problem:  # no bound is never wrong
                    problems.append(problem)
                    continue
                # error of a bound that is a solver's tolerance
                value = bound - 1e-5 * (1 + abs(bound)) if math.isfinite(bound) else bound
                if value > 0 and (value == math.inf or profile.delta(arb(value)) < delta):
                    error += _binomial(i, total, inside) * _binomial(j, total, outside)
            return max(down(error.lower()), 0.0), problems


def _binomial(count: int, total: int, p: Ball) -> Ball:
    return arb(fmpz.bin_uiui(total, count)) * p**count * (1 - p) ** (total - count)


# summaries of a violation, and of a search without one
_SUMMARY = (
    "the accountant returns {symbol} = {figure:.9g} where the exact one is at least {exact:.9g}",
    "no figure too low among {compared}; lowest {symbol} = {figure:.9g} where the exact one is at "
    "least {exact:.9g}",
)
_WRONG_BOUND = (
    "the lower bound is above the true epsilon with probability at least {exact:.9g}, "
    "{figure:.9g} is claimed"
)
_SUMMARIES = {GAME_FIGURE: (_WRONG_BOUND, f"at worst, {_WRONG_BOUND}")}


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class AccountantResult(FunctionResult):
    """Result of an audit of an accountant.

    Attributes
    ----------
    verdict : Verdict
        VIOLATED if a figure is certainly below the exact one, NOT_REFUTED if none was found, ERROR
        if no figure could be compared.
    mechanism, returns, parameters, seed
        Arguments of `dpwitness.accounting.audit_accountant`.
    at : dict
        Parameters of the mechanism and of the figure at the violation; without a violation, where
        the figure is lowest.
    figure, exact : float
        Figure of the accountant and the exact figure, at `at`. The exact figure is a rigorous lower
        bound.
    loosest : dict or None
        Parameters, figure and exact figure where the ratio of the two is largest.
    compared, failed : int
        Number of figures that were compared, and of calls that raised or returned no number.
    name, notes, seconds, target, subject
        As in other results.
    """

    kind: ClassVar[str] = "accountant"

    mechanism: str
    returns: str
    parameters: Mapping[str, str]
    at: Mapping[str, Any]
    figure: float
    exact: float
    loosest: Mapping[str, Any] | None
    compared: int
    failed: int

    def _claim_text(self) -> str:
        return f"{FIGURES[self.returns].symbol} of the {self.mechanism} mechanism"

    def _witness_fields(self) -> Json | None:
        if self.verdict is not Verdict.VIOLATED:
            return None
        return {
            **self._question(),
            "at": dict(self.at),
            "figure": strict(self.figure),
            "exact": strict(self.exact),
        }

    def _question(self) -> Json:
        return {
            "mechanism": self.mechanism,
            "returns": self.returns,
            "parameters": dict(self.parameters),
        }

    def _summary(self) -> str:
        """Return both figures and the parameters in one line."""
        violated = self.verdict in (Verdict.VIOLATED, Verdict.SUSPECT)
        text = _SUMMARIES.get(self.returns, _SUMMARY)[0 if violated else 1].format(
            symbol=FIGURES[self.returns].symbol,
            figure=self.figure,
            exact=self.exact,
            compared=self.compared,
        )
        return f"{text} ({self.mechanism}: {described(self.at)})"

    def _fields(self) -> Json:
        return {
            **self._question(),
            "at": strict(self.at),
            "figure": strict(self.figure),
            "exact": strict(self.exact),
            "loosest": strict(self.loosest),
            "compared": self.compared,
            "failed": self.failed,
        }


def described(at: Mapping[str, Any]) -> str:
    """Return the parameters of a point as text."""
    return ", ".join(f"{name} = {value:.12g}" for name, value in at.items()) or "no parameters"


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
        discrete-gaussian (sigma), composition (epsilon0, delta0, steps), subsampled-response
        (epsilon0, q), subsampled-gaussian (sigma, q, steps; Poisson sampling, one record added or
        removed) or without-replacement-gaussian (sigma, q, steps; one record replaced). Sigma is
        the noise's standard deviation over the distance by which one record moves the sum. With
        "gaussian-canaries", the function is a tool that returns a lower confidence bound on epsilon
        from `in_scores`, `out_scores`, `significance` and `delta`.
    returns : {"epsilon", "delta", "rdp", "zcdp", "mu", "noise", "lower-epsilon"}
        Figure that the accountant returns: epsilon at `delta`, delta at `epsilon`, Rényi divergence
        at `order`, rho of zero-concentrated privacy, mu of Gaussian privacy, or the noise (sigma,
        scale) at `epsilon` and `delta`. For a lower bound on epsilon, the figure is the claimed
        error probability, and the exact figure is the probability that the bound exceeds the true
        epsilon.
    parameters : dict, optional
        Dict from the names of the function's arguments to parameters of the mechanism or of the
        figure. Default: the function's own argument names. Parameters that the function does not
        take have their defaults: one step, sensitivity 1, delta 0.
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
    ...     ranges={"epsilon": (0.1, 1)}, evaluations=100).verdict.value)
    NOT_REFUTED
    >>> print(audit_accountant(classic, "gaussian", "noise",
    ...     ranges={"epsilon": (5, 30)}).verdict.value)
    VIOLATED
    """
    require_callable("function", function, OWNER)
    seed, evaluations = require_settings(OWNER, seed, seconds, evaluations, name)
    begin = time.perf_counter()
    question, names = _asked(function, mechanism, returns, parameters, ranges)
    found = search(question, seconds=seconds, evaluations=evaluations, seed=seed)
    return _result(
        function, mechanism, returns, names, *found, seed, name or name_of(function), begin
    )


def compare_at(
    function: Callable[..., Any],
    mechanism: Any,
    returns: Any,
    parameters: Any,
    recorded: Json,
    seed: int,
    name: str,
) -> AccountantResult:
    """Return the result of one comparison, at the recorded parameters of a witness. Raise
    InvalidArgument if they are not those of the function.
    """
    begin = time.perf_counter()
    question, names = _asked(function, mechanism, returns, parameters)
    question.require_point(recorded)
    found = question.comparison(recorded)
    violation = found if found.violated else None
    return _result(function, mechanism, returns, names, [found], violation, seed, name, begin)


def _asked(
    function: Callable[..., Any], mechanism: str, returns: Any, parameters: Any, ranges: Any = None
) -> tuple[Question, Mapping[str, str]]:
    """Return the question of an audit, and the parameter of each argument of the function."""
    if mechanism != GAME:
        return question_of(function, mechanism, returns, parameters, ranges)
    require_one_of("returns", returns, (GAME_FIGURE,), OWNER)
    scores = ("in_scores", "out_scores")
    known = (*scores, "significance", "delta")
    names = arguments_of(function, parameters, known, scores, mechanism)
    return CanaryGame(caller(function, names)), names


def _result(
    function: Any,
    mechanism: str,
    returns: str,
    names: Mapping[str, str],
    found: Sequence[FigureComparison],
    violation: FigureComparison | None,
    seed: int,
    name: str,
    begin: float,
) -> AccountantResult:
    """Return the result of the comparisons of a search that began at this time."""
    compared = [each for each in found if not math.isnan(each.exact)]
    lowest = min(compared, key=lambda each: each.score, default=FigureComparison({}))
    loose = [each for each in compared if each.loose]
    highest = max(loose, key=lambda each: each.ratio, default=None)
    point, verdict = violation or lowest, Verdict.NOT_REFUTED if compared else Verdict.ERROR
    return AccountantResult(
        name=name,
        verdict=Verdict.VIOLATED if violation else verdict,
        mechanism=mechanism,
        returns=returns,
        parameters=names,
        at=point.at,
        figure=point.figure,
        exact=point.exact,
        loosest={key: getattr(highest, key) for key in ("at", "figure", "exact")}
        if highest
        else None,
        compared=len(compared),
        failed=sum(len(each.failures) for each in found),
        seed=seed,
        notes=_notes(found, compared, violation, highest, returns),
        seconds=time.perf_counter() - begin,
        target=named(function),
        subject=function,
    )


def _notes(
    found: Sequence[FigureComparison],
    compared: Sequence[FigureComparison],
    violation: FigureComparison | None,
    highest: FigureComparison | None,
    returns: str,
) -> tuple[str, ...]:
    """Return notes on failed calls, rounding, and loose figures; the cause of an error
    comes first.
    """
    negative = sum(each.exact < 0 and not each.violated for each in compared)
    unavailable = sum(math.isnan(each.exact) and not each.failures for each in found)
    failures = [text for each in found for text in each.failures]
    few, notes = list(dict.fromkeys(failures))[:3], list[str]()
    if not compared:
        why = f": {few[0]}" if few else ""
        notes.append(
            f"no figure could be compared ({len(failures)} calls failed, {unavailable} exact "
            f"figures unavailable){why}"
        )
    elif failures:
        notes.append(f"{len(failures)} calls failed and were skipped: {'; '.join(few)}")
    if negative:
        notes.append(
            f"negative figures that are not too low: {negative} (delta is at least "
            "1 - e^epsilon there for every mechanism, and the given delta is as large as this one "
            "needs)"
        )
    if violation is not None and returns == "epsilon" and violation.figure < 0:
        notes.append(
            "a negative epsilon needs a delta of at least 1 - e^epsilon, here "
            f"{-math.expm1(violation.figure):.6g}, and more for this mechanism"
        )
    if unavailable and compared:
        notes.append(
            f"{unavailable} exact figures could not be computed at extreme parameters and were "
            "skipped"
        )
    if highest is not None and highest.ratio > 1.1:
        notes.append(
            f"loose: up to {highest.ratio:.3g} times the exact figure "
            f"({FIGURES[returns].symbol} = {highest.figure:.6g}, the exact one is "
            f"{highest.exact:.6g} at {described(highest.at)})"
        )
    return tuple(notes)
