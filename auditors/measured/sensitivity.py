"""Is a function as insensitive as claimed? Maximise |f(D) - f(D')| over neighbouring datasets and compare with the bound.

Claims CM-04, JK-01 to JK-03, JT-01, JT-10, JT-11. Where f says how far its value may be from the exact one, the verdict is rigorous.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dpwitness.auditors.pairs.catalogue import require_neighbours
from dpwitness.auditors.pairs.search import explore
from dpwitness.auditors.results.verdicts import Result, Verdict, environment, strict
from dpwitness.auditors.results.witness import function_witness, named
from dpwitness.mechanisms.domains import Domain
from dpwitness.mechanisms.numerics.solvers import ConvergenceError
from dpwitness.mechanisms.papers.learner import Predictor
from dpwitness.mechanisms.terms.pairs import Pair
from dpwitness.mechanisms.terms.protocol import FloatArray, name_of
from dpwitness.mechanisms.terms.reading import Json
from dpwitness.mechanisms.terms.validation import InvalidArgument, require_callable, require_integer, require_positive, require_type, shown

Norm = float | Callable[[Any, Any], float]

_ROUNDING = 1e-9  # relative allowance for values that come without a radius
_SLACK = 1e-7  # a ratio this far above 1 is no rounding of the bound, nor of the radii themselves


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SensitivityResult(Result):
    """Result of a sensitivity audit.

    Attributes
    ----------
    verdict : Verdict
        VIOLATED where the difference certainly exceeds the bound, NOT_REFUTED otherwise, ERROR where the function never converged.
    ratio : float
        Largest |f(D) - f(D')| / bound found.
    ratio_lower, ratio_upper : float
        The same with the error radii of both values taken off and put on.
    pair : Pair or None
        Where it was found.
    rigorous : bool
        Whether the function gave its error radii. Otherwise its values are taken to be exact to 1e-9 of their size.
    trace : tuple of (int, float)
        Evaluations so far and best ratio so far, at each improvement.
    skipped : int
        Evaluations at which a solver did not converge; they say nothing.
    """

    name: str
    verdict: Verdict
    bound: float
    norm: str
    ratio: float
    ratio_lower: float
    ratio_upper: float
    pair: Pair | None
    rigorous: bool
    trace: tuple[tuple[int, float], ...]
    evaluations: int
    skipped: int
    seed: int
    notes: tuple[str, ...] = ()
    seconds: float = field(default=0.0)
    function: Callable[[Any], Any] | None = field(default=None, repr=False)
    norm_used: Norm = field(default=2, repr=False)

    @property
    def witness(self) -> Json | None:
        """Function, pair and bound, which `dpwitness.replay` evaluates again; None unless the bound is violated."""
        norm = named(self.norm_used) if callable(self.norm_used) else str(self.norm_used)
        if self.verdict is not Verdict.VIOLATED or self.function is None or norm is None or self.pair is None:
            return None
        more = {"kind": "sensitivity", "bound": self.bound, "norm": norm, "pair": self.pair.to_json(), "ratio": self.ratio_lower}
        return function_witness(self.name, self.function, self.seed, more)

    @property
    def evidence(self) -> str:
        """``proved`` where the solver's error radii enclose every value; otherwise values are taken as exact to 1e-9."""
        return "proved" if self.rigorous else "numerical"

    def headline(self) -> str:
        """Verdict, ratio, and where it was reached."""
        if self.verdict is Verdict.ERROR:
            return f"ERROR: {self.notes[0]}"
        how = "certified by the solver's error radii" if self.rigorous else "values taken as exact to 1e-9"
        where = self.pair.why if self.pair else "no pair"
        if self.verdict is Verdict.VIOLATED:
            return f"VIOLATED: the function moves by {self.ratio_lower:.6g} times the claimed {self.bound:.6g} ({how}; {where})"
        found = f"largest ratio found {self.ratio:.6g} of the claimed {self.bound:.6g} in {self.evaluations} evaluations"
        return f"NOT REFUTED: {found} ({how}; {where})"

    def to_json(self) -> Json:
        return {
            "kind": "sensitivity",
            "name": self.name,
            "verdict": self.verdict.value,
            "headline": self.headline(),
            "evidence": self.evidence,
            "claim": f"moves by at most {self.bound:.6g}",
            "bound": self.bound,
            "norm": self.norm,
            "ratio": strict(self.ratio),
            "ratio_lower": strict(self.ratio_lower),
            "ratio_upper": strict(self.ratio_upper),
            "pair": self.pair.to_json() if self.pair else None,
            "rigorous": self.rigorous,
            "trace": [[count, strict(value)] for count, value in self.trace],
            "evaluations": self.evaluations,
            "skipped": self.skipped,
            "seed": self.seed,
            "notes": list(self.notes),
            "environment": environment(),
            "seconds": round(self.seconds, 3),
        }


def feature_distance(first: Predictor, second: Predictor) -> float:
    """|w - w'| in the kernel's feature space, for ``norm=feature_distance``."""
    centers = np.vstack([first.centers, second.centers])
    weights = np.concatenate([first.coefficients, -second.coefficients])
    return math.sqrt(max(float(weights @ first.kernel(centers, centers) @ weights), 0.0))


def audit_sensitivity(
    function: Callable[[Any], Any],
    claimed_bound: float,
    domain: Domain,
    norm: Norm = 2,
    *,
    seed: int = 0,
    seconds: float = 60.0,
    evaluations: int = 20_000,
    name: str | None = None,
) -> SensitivityResult:
    """Look for neighbouring datasets on which `function` moves by more than `claimed_bound`.

    Parameters
    ----------
    function : callable
        ``f(dataset)``: a number, a vector, or with another `norm` anything. If each value comes with a bound on its error in that
        norm, as ``(value, radius)`` or as an object with `w` and `radius` like `Minimum`, the difference is enclosed. May raise
        ConvergenceError: that dataset is skipped, and counted.
    claimed_bound : float
        Positive.
    domain : Domain
        All that the search is told.
    norm : {1, 2, inf} or callable
        Norm of the difference, or ``distance(value, value)``.
    seed : int
    seconds, evaluations : float, int
        The search stops at whichever comes first.
    name : str, optional
        For the report.

    Raises
    ------
    InvalidArgument
        If the domain is empty or has no neighbours, or the function returns something that is no finite vector.

    Examples
    --------
    >>> from dpwitness.mechanisms import Records
    >>> import numpy as np
    >>> audit_sensitivity(np.mean, 0.25, Records(4), evaluations=500).verdict.value
    'NOT_REFUTED'
    >>> round(audit_sensitivity(np.mean, 0.2, Records(4), evaluations=500).ratio, 9)
    1.25
    """
    bound = require_positive("claimed_bound", claimed_bound, "audit_sensitivity")
    require_positive("seconds", seconds, "audit_sensitivity")
    evaluations = require_integer("evaluations", evaluations, "audit_sensitivity", most=10**12)
    seed = require_integer("seed", seed, "audit_sensitivity", least=0)
    if not callable(function):
        raise InvalidArgument(f"audit_sensitivity: function must be callable, got {shown(function)}")
    _require_norm(norm, "audit_sensitivity")
    require_type("name", name, str, "be a text", "audit_sensitivity", optional=True)
    require_neighbours(domain, "audit_sensitivity")
    begin = time.perf_counter()
    measure = _Difference(function, norm)

    def score(pair: Pair, _: FloatArray) -> tuple[float, None]:
        size, error = measure(pair)
        return max(size - error, 0.0) / bound, None

    found = explore(domain, score, evaluations=evaluations, seconds=seconds, seed=seed)
    asked, pair = _Request(function, bound, norm, name, seed), found.candidates[0].pair if found.candidates else None
    notes = (f"{found.skipped} evaluations skipped: {found.reason}",) if found.skipped else ()
    if pair is None:
        notes = (f"the function converged on none of {found.evaluations} pairs: {found.reason}",)
    told: dict[str, Any] = {"trace": tuple(found.trace), "evaluations": found.evaluations, "skipped": found.skipped}
    return replace(asked.answered(measure, pair, notes=notes, **told), seconds=time.perf_counter() - begin)


def sensitivity_at(
    function: Callable[[Any], Any], claimed_bound: float, pair: Pair, norm: Norm = 2, *, name: str | None = None
) -> SensitivityResult:
    """`audit_sensitivity` of one given pair; ERROR where the function does not converge on it."""
    bound = require_positive("claimed_bound", claimed_bound, "sensitivity_at")
    require_callable("function", function, "sensitivity_at")
    require_type("pair", pair, Pair, "be a Pair", "sensitivity_at")
    require_type("name", name, str, "be a text", "sensitivity_at", optional=True)
    _require_norm(norm, "sensitivity_at")
    measure, asked = _Difference(function, norm), _Request(function, bound, norm, name)
    empty: dict[str, Any] = {"trace": (), "skipped": 0}
    try:
        return asked.answered(measure, pair, evaluations=1, **empty)
    except ConvergenceError as error:
        return asked.answered(measure, None, evaluations=0, notes=(f"the function did not converge on the pair: {error}",), **empty)


def _require_norm(norm: Any, owner: str) -> None:
    if not callable(norm) and not (isinstance(norm, int | float) and norm in (1, 2, math.inf)):
        raise InvalidArgument(f"{owner}: norm must be 1, 2, inf or a distance function, got {shown(norm)}")


@dataclass(frozen=True, slots=True, eq=False)
class _Request:
    """What is asked."""

    function: Callable[[Any], Any]
    bound: float
    norm: Norm
    name: str | None
    seed: int = 0

    def answered(self, measure: _Difference, pair: Pair | None, **told: Any) -> SensitivityResult:
        """The result: what the pair shows, or ERROR without one."""
        size, error = measure(pair) if pair is not None else (math.nan, 0.0)
        lower = max(size - error, 0.0) / self.bound if pair is not None else math.nan
        judged = Verdict.VIOLATED if lower > 1 + _SLACK else Verdict.NOT_REFUTED
        return SensitivityResult(
            name=self.name or name_of(self.function),
            verdict=judged if pair is not None else Verdict.ERROR,
            bound=self.bound,
            norm=getattr(self.norm, "__name__", str(self.norm)),
            ratio=size / self.bound,
            ratio_lower=lower,
            ratio_upper=(size + error) / self.bound,
            pair=pair,
            rigorous=measure.rigorous,
            seed=self.seed,
            function=self.function,
            norm_used=self.norm,
            **told,
        )


class _Difference:
    """|f(D) - f(D')| and how far it may be off."""

    def __init__(self, function: Callable[[Any], Any], norm: Norm) -> None:
        self._function, self._norm = function, norm
        self.rigorous = True

    def __call__(self, pair: Pair) -> tuple[float, float]:
        (first, r0), (second, r1) = (self._value(dataset) for dataset in (pair.d0, pair.d1))
        if callable(self._norm):
            size = largest = float(self._norm(first, second))
        else:
            left, right = self._vector(first), self._vector(second)
            if left.shape != right.shape:
                raise InvalidArgument(f"audit_sensitivity: function must give one shape, got {left.shape} and {right.shape}")
            size, *both = (float(np.linalg.norm(v, self._norm)) for v in (left - right, left, right))
            largest = max(both)
        if not math.isfinite(size):
            raise InvalidArgument(f"audit_sensitivity: function must give finite values, got a difference of {size!r}")
        cancelled = 4e-16 * largest  # the difference keeps the rounding of the values themselves
        if r0 is None or r1 is None:
            self.rigorous = False
            return size, _ROUNDING * size + cancelled
        return size, r0 + r1 + cancelled

    def _value(self, dataset: Any) -> tuple[Any, float | None]:
        value = self._function(dataset)
        if isinstance(value, tuple) and len(value) == 2:
            return value[0], self._radius(value[1])
        if hasattr(value, "w") and hasattr(value, "radius"):
            return value.w, self._radius(value.radius)
        return value, None

    def _radius(self, radius: Any) -> float:
        if not (isinstance(radius, int | float | np.floating) and 0 <= radius < math.inf):
            raise InvalidArgument(f"audit_sensitivity: function must give a finite error radius, at least 0, got {radius!r}")
        return float(radius)

    def _vector(self, value: Any) -> FloatArray:
        try:
            return np.atleast_1d(np.asarray(value, dtype=np.float64)).ravel()
        except (TypeError, ValueError):
            raise InvalidArgument(f"audit_sensitivity: function must give a vector of numbers, got {type(value).__name__}") from None
