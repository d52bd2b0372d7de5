"""Audit of an accountant: a figure below the exact one is a violation, at any parameters; and the
games that test tools whose figure is the claim of a game.

Canary scores: exact error probability of a tool that returns a lower confidence bound on epsilon.
The scores are 1 if a normal variable exceeds a threshold, and 0 otherwise; the mean of the variable
is mu for canaries inside, and 0 for those outside. So the mechanism is Gaussian with this mu, its
counts are binomial, and the probability that the bound exceeds the true epsilon is a finite sum.

Filters: the exact composition of the mechanisms that a filter admits, compared with the budget. The
adversary is adaptive. It releases randomized response, and continues with one of two sequences of
mechanisms, depending on the output (Rogers, Roth, Ullman and Vadhan 2016). Each sequence is cut
where the filter stops. The composed privacy is an exact finite sum.
"""

from __future__ import annotations

import itertools
import math
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from flint import arb, ctx, fmpz

from dpwitness.auditors.functions.accounting.mechanisms import FIGURES, GAME_FIGURES, Point
from dpwitness.auditors.functions.accounting.profiles import Composition, Unavailable
from dpwitness.auditors.functions.accounting.search import (
    OWNER,
    Call,
    FigureComparison,
    Question,
    SearchState,
    arguments_of,
    caller,
    number_of,
    plain,
    question_of,
    read_point,
    search,
)
from dpwitness.auditors.search.catalogue import require_settings
from dpwitness.auditors.search.maximize import Scored
from dpwitness.auditors.witnesses.result import FunctionResult, named
from dpwitness.auditors.witnesses.verdicts import Verdict, strict
from dpwitness.core.balls.ball import PRECISION, Ball, down
from dpwitness.core.balls.profiles import GaussianProfile, normal_cdf
from dpwitness.core.protocols.mechanism import name_of
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import (
    require_callable,
    require_one_of,
    require_that,
    short_repr,
)

_LONGEST = 200  # largest number of mechanisms in one sequence
_SEQUENCES = (("epsilons", "deltas"), ("other_epsilons", "other_deltas"))


@dataclass(frozen=True, slots=True)
class Game(Question):
    """Game that tests a tool: the tool's arguments, those that it needs, and the parameter that is
    the claimed probability.

    In its comparisons, the figure is the probability that the tool claims, and the exact figure is
    the true one.
    """

    arguments: ClassVar[tuple[str, ...]]
    needed: ClassVar[tuple[str, ...]]
    claimed: ClassVar[str]
    parameters = ()

    call: Call

    @abstractmethod
    def exact(self, at: Point) -> tuple[float, list[str]]:
        """Return a lower bound on the true probability, and the problems of failed calls. Raise
        ValueError if no figure can be computed from the answers.
        """

    def compared(self, points: Iterator[Point]) -> Iterator[FigureComparison]:
        """Yield the comparison at each point."""
        return map(self.comparison, points)

    def comparison(self, at: Point) -> FigureComparison:
        """Return the comparison at one point."""
        try:
            exact, problems = self.exact(at)
        except Unavailable:
            return FigureComparison(at)
        except ValueError as error:
            return FigureComparison(at, failures=(str(error),))
        new = FigureComparison(at, at[self.claimed], exact, failures=tuple(problems))
        violated = exact > new.figure * (1 + 1e-9) + 1e-15
        return replace(new, score=new.ratio, violated=violated)


class CanaryGame(Game):
    """Lower confidence bound on epsilon from scores of canaries."""

    __slots__ = ()
    arguments = ("in_scores", "out_scores", "significance", "delta")
    needed = ("in_scores", "out_scores")
    claimed = "significance"

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
                f"at.{key} must be in the range of a law of scores, got {short_repr(value)}",
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


class FilterGame(Game):
    """Number of mechanisms that a privacy filter admits, against an adaptive adversary."""

    __slots__ = ()
    arguments = needed = ("epsilons", "deltas", "epsilon", "delta")
    claimed = "delta"

    def points(self, best: Sequence[Scored[Point]], rng: np.random.Generator) -> Iterator[Point]:
        """Yield budgets and pairs of sequences to try: equal sequences, then sequences that differ
        after the first output.
        """
        while True:
            epsilon = float(rng.choice([0.1, 0.5, 1.0, 3.0]))
            delta = float(rng.choice([1e-9, 1e-6, 1e-3, 1e-2]))
            count = int(rng.choice([1, 2, 3, 10, 50, _LONGEST]))
            size = float(rng.choice([0.05, 0.2, 0.5, 0.9])) * epsilon
            failure = 0.0 if rng.random() < 0.5 else delta / float(rng.choice([2.0, 10.0, 100.0]))
            after = [size * float(scale) for scale in rng.choice([0.3, 1.0, 3.0], size=2)]
            if rng.random() < 0.4:
                after = [size] * 2
            at: dict[str, Any] = {"epsilon": epsilon, "delta": delta}
            for (epsilons, deltas), each in zip(_SEQUENCES, after, strict=True):
                at |= {epsilons: (size, *[each] * (count - 1)), deltas: (failure,) * count}
            yield at

    def require_point(self, at: Point) -> None:
        """Raise InvalidArgument unless the budget and the sequences of a witness may be tried."""
        lists = [key for names in _SEQUENCES for key in names]
        for key in lists:
            value, high = at.get(key), 1.0 if key.endswith("deltas") else 100.0
            require_that(
                isinstance(value, tuple)
                and 1 <= len(value) <= _LONGEST
                and all(0 <= x <= high for x in value),
                f"at.{key} must be a list of at most {_LONGEST} numbers in [0, {high:g}], got "
                f"{short_repr(value)}",
            )
        first, other = ([(at[key][0], len(at[key])) for key in names] for names in _SEQUENCES)
        require_that(
            first == other and len(at["epsilons"]) == len(at["deltas"]),
            "at must have sequences of equal length that begin with the same mechanism",
        )
        for key, high in (("epsilon", 100.0), ("delta", 1.0)):
            value = at.get(key)
            require_that(
                isinstance(value, int | float) and 0 < value <= high,
                f"at.{key} must be in (0, {high:g}], got {short_repr(value)}",
            )

    def exact(self, at: Point) -> tuple[float, list[str]]:
        """Return the delta of the admitted mechanisms at the budget's epsilon."""
        most = len(at["epsilons"])
        answers = self.call([{**at, "epsilons": at[e], "deltas": at[d]} for e, d in _SEQUENCES])
        lengths = [_count(answer, most) for answer in answers]
        if min(lengths) == 0:
            return 0.0, []
        with ctx.workprec(PRECISION):
            size, failure = arb(at["epsilons"][0]), arb(at["deltas"][0])
            total = failure
            for loss, (e, d), length in zip((size, -size), _SEQUENCES, lengths, strict=True):
                mass = (1 - failure) / (1 + (-loss).exp())
                rest = tuple(zip(at[e][1:length], at[d][1:length], strict=True))
                # the divergence of a composition also at a negative epsilon
                total += mass * Composition(rest).delta(arb(at["epsilon"]) - loss)
            return max(down(total.lower()), 0.0), []


def _count(answer: Any, most: int) -> int:
    """Return the number of admitted mechanisms. Raise ValueError for anything else."""
    found, problem = number_of(answer)
    if problem or not 0 <= found <= most or found != int(found):
        raise ValueError(
            problem or f"returned {short_repr(answer)}, not a number of mechanisms from 0 to {most}"
        )
    return int(found)


GAMES: Mapping[str, type[Game]] = {"gaussian-canaries": CanaryGame, "privacy-filter": FilterGame}


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
_OVER_BUDGET = (
    "under a budget of delta = {figure:.9g}, an adaptive adversary reaches delta of at least "
    "{exact:.9g}"
)
_SUMMARIES = {
    "lower-epsilon": (_WRONG_BOUND, f"at worst, {_WRONG_BOUND}"),
    "admitted": (_OVER_BUDGET, f"at worst, {_OVER_BUDGET}"),
}


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
            "at": plain(self.at),
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
    return ", ".join(f"{name} = {_number(value)}" for name, value in at.items()) or "no parameters"


def _number(value: Any) -> str:
    if not isinstance(value, tuple | list):
        return f"{value:.12g}"
    runs = [(f"{first:.12g}", len(list(group))) for first, group in itertools.groupby(value)]
    texts = [f"{text} ({count} times)" if count > 1 else text for text, count in runs]
    return f"[{', '.join(texts)}]"


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
        function, mechanism, returns, names, found, seed, name or name_of(function), begin
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
    begin, at = time.perf_counter(), read_point(recorded)
    question, names = _asked(function, mechanism, returns, parameters)
    question.require_point(at)
    found = SearchState().including(question.comparison(at))
    return _result(function, mechanism, returns, names, found, seed, name, begin)


def _asked(
    function: Callable[..., Any], mechanism: str, returns: Any, parameters: Any, ranges: Any = None
) -> tuple[Question, Mapping[str, str]]:
    """Return the question of an audit, and the parameter of each argument of the function."""
    game = GAMES.get(mechanism)
    if game is None:
        return question_of(function, mechanism, returns, parameters, ranges)
    require_one_of("returns", returns, (GAME_FIGURES[mechanism],), OWNER)
    names = arguments_of(function, parameters, game.arguments, game.needed, mechanism)
    return game(caller(function, names)), names


def _result(
    function: Any,
    mechanism: str,
    returns: str,
    names: Mapping[str, str],
    found: SearchState,
    seed: int,
    name: str,
    begin: float,
) -> AccountantResult:
    """Return the result of a search that began at this time."""
    point = found.violation or found.lowest or FigureComparison({}, math.nan, math.nan)
    compared = Verdict.NOT_REFUTED if found.lowest else Verdict.ERROR
    return AccountantResult(
        name=name,
        verdict=Verdict.VIOLATED if found.violation else compared,
        mechanism=mechanism,
        returns=returns,
        parameters=names,
        at=point.at,
        figure=point.figure,
        exact=point.exact,
        loosest={key: getattr(found.highest, key) for key in ("at", "figure", "exact")}
        if found.highest
        else None,
        compared=found.compared,
        failed=found.failed,
        seed=seed,
        notes=_notes(found, returns),
        seconds=time.perf_counter() - begin,
        target=named(function),
        subject=function,
    )


def _notes(found: SearchState, returns: str) -> tuple[str, ...]:
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
        notes.append(
            f"figures below the exact ones by rounding: {found.rounding}, by at most "
            f"{found.deficit:.2g} (rounding in double precision explains up to "
            f"{FIGURES[returns].rounding:g})"
        )
    if found.negative:
        notes.append(
            f"negative figures that are not too low: {found.negative} (delta is at least "
            "1 - e^epsilon there for every mechanism, and the given delta is as large as this one "
            "needs)"
        )
    if found.violation is not None and returns == "epsilon" and found.violation.figure < 0:
        notes.append(
            "a negative epsilon needs a delta of at least 1 - e^epsilon, here "
            f"{-math.expm1(found.violation.figure):.6g}, and more for this mechanism"
        )
    if found.unavailable and found.compared:
        notes.append(
            f"{found.unavailable} exact figures could not be computed at extreme parameters "
            "and were skipped"
        )
    highest = found.highest
    if highest is not None and highest.ratio > 1.1:
        notes.append(
            f"loose: up to {highest.ratio:.3g} times the exact figure "
            f"({FIGURES[returns].symbol} = {highest.figure:.6g}, the exact one is "
            f"{highest.exact:.6g} at {described(highest.at)})"
        )
    return tuple(notes)
