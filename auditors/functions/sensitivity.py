"""Sensitivity audit: maximize |f(D) - f(D')| over neighboring datasets and compare with the claimed
bound.

Claims CM-04, JK-01 to JK-03, JT-01, JT-10, JT-11. Where f gives a bound on the error of its value,
the verdict is rigorous.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from numbers import Rational
from typing import Any, ClassVar

import numpy as np

from dpwitness.auditors.search.catalogue import require_domain, require_settings
from dpwitness.auditors.search.explore import explore
from dpwitness.auditors.witnesses.kinds import (
    BOUND_TOLERANCE,
    Measure,
    Recomputed,
    figures,
    function_kind,
    is_measured,
    line,
    pair_facts,
    raise_contradiction,
    require_verdict,
)
from dpwitness.auditors.witnesses.replay import Replay, RunOptions
from dpwitness.auditors.witnesses.result import FunctionResult, named, numbers_of
from dpwitness.auditors.witnesses.verdicts import Verdict, strict
from dpwitness.auditors.witnesses.witness_reader import EXTENDED, FUNCTION, PAIR, either, read_pair
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.domains import Domain
from dpwitness.core.numerics.solvers import ConvergenceError
from dpwitness.core.protocols import FloatArray, name_of
from dpwitness.core.values.json_reader import Json, number, one_of, refuse
from dpwitness.core.values.validation import (
    InvalidArgument,
    require_callable,
    require_positive,
    require_that,
    require_type,
    short_repr,
)
from dpwitness.core.values.wording import count, figure
from dpwitness.mechanisms.papers.erm import Predictor

Norm = float | Callable[[Any, Any], float]

_ULPS = 4  # units in the last place by which a function may round its value
_SLACK = 1e-7  # slack above 1 of the ratio, beyond any rounding of the bound and of the error radii


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class SensitivityResult(FunctionResult):
    """Result of a sensitivity audit.

    Attributes
    ----------
    verdict : Verdict
        VIOLATED if the difference certainly exceeds the bound, ERROR if the function never
        converged, NOT_REFUTED otherwise.
    ratio : float
        Largest ``|f(D) - f(D')| / bound`` found.
    ratio_lower, ratio_upper : float
        The ratio with the error radii of both values subtracted and added.
    pair : Pair or None
        Pair with the largest ratio.
    rigorous : bool
        Whether the function gave error radii. Otherwise, its values are assumed to be exact to
        `precision`.
    precision : str
        Assumed precision of values without error radii: 1e-9 of the difference, or 4 units in the
        last place of a floating-point type below float64. Whole numbers, decimals and fractions are
        exact. An excess within the rounding is a note, not a violation.
    progress : tuple of (int, float)
        Number of evaluations and best ratio, at each improvement.
    skipped : int
        Number of evaluations at which a solver did not converge. Such evaluations are ignored.
    name, subject, bound, norm, norm_used, seed
        Arguments of `dpwitness.audit_sensitivity`; `norm` is the name of the norm `norm_used`.
    evaluations : int
        Number of evaluations of the function.
    notes, seconds, target
        As in other results.
    """

    kind: ClassVar[str] = "sensitivity"

    bound: float
    norm: str
    ratio: float
    ratio_lower: float
    ratio_upper: float
    pair: Pair | None
    rigorous: bool
    progress: tuple[tuple[int, float], ...]
    evaluations: int
    skipped: int
    norm_used: Norm = field(default=2, repr=False)
    precision: str = "1e-9"

    def _witness_fields(self) -> Json | None:
        norm = named(self.norm_used) if callable(self.norm_used) else str(self.norm_used)
        if self.verdict is not Verdict.VIOLATED or norm is None or self.pair is None:
            return None
        return {
            "bound": self.bound,
            "norm": norm,
            "pair": self.pair.to_json(),
            "ratio": self.ratio_lower,
        }

    def _claim_text(self) -> str:
        return f"moves by at most {self.bound:.6g}"

    @property
    def evidence(self) -> str:
        """Return ``proved`` if the solver's error radii enclose every value; otherwise
        ``numerical``, with values assumed exact to 1e-9.
        """
        return "proved" if self.rigorous else "numerical"

    def _summary(self) -> str:
        """Return the ratio and the pair in one line."""
        how = (
            "certified by the solver's error radii"
            if self.rigorous
            else f"values taken as exact to {self.precision}"
        )
        where = self.pair.why if self.pair else "no pair"
        if self.verdict is Verdict.VIOLATED:
            short = f"{self.ratio_lower:.6g}"
            times = f"{self.ratio_lower:.17g}" if short == "1" else short
            return (
                f"the function moves by {times} times the claimed {self.bound:.6g} ({how}; {where})"
            )
        return (
            f"largest ratio found {self.ratio:.6g} of the claimed {self.bound:.6g} in "
            f"{self.evaluations} evaluations ({how}; {where})"
        )

    def _fields(self) -> Json:
        return {
            "bound": self.bound,
            "norm": self.norm,
            **numbers_of(self, "ratio", "ratio_lower", "ratio_upper"),
            "pair": self.pair.to_json() if self.pair else None,
            "rigorous": self.rigorous,
            "progress": [[count, strict(value)] for count, value in self.progress],
            "evaluations": self.evaluations,
            "skipped": self.skipped,
        }


def feature_distance(first: Predictor, second: Predictor) -> float:
    """Return |w - w'| in the kernel's feature space, for ``norm=feature_distance``.

    Parameters
    ----------
    first, second : Predictor
        Kernel predictors with the same kernel.

    Returns
    -------
    float
        Distance of the weight vectors w and w'.
    """
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
    """Search for neighboring datasets on which `function` moves by more than `claimed_bound`.

    Parameters
    ----------
    function : callable
        ``f(dataset)``: a number or a vector; with a distance function as `norm`, any object. If
        each value comes with a bound on its error in this norm, as ``(value, radius)`` or as an
        object with `w` and `radius` like `Minimum`, the difference is enclosed. The function may
        raise ConvergenceError: then the dataset is skipped, and counted.
    claimed_bound : float
        Claimed bound on the difference. Positive.
    domain : Domain
        Domain of the datasets to search.
    norm : {1, 2, inf} or callable
        Norm of the difference, or ``distance(value, value)``.
    seed : int
        Seed of the search.
    seconds, evaluations : float, int
        Budgets of the search, in seconds and in evaluations. The search stops when one of them is
        spent.
    name : str, optional
        Name of the function in the report.

    Returns
    -------
    SensitivityResult
        Verdict, largest ratio, and the pair with this ratio.

    Raises
    ------
    InvalidArgument
        If the domain is empty or has no neighbors, the function returns something that is not a
        finite vector, or another argument is invalid.

    Examples
    --------
    >>> from dpwitness.mechanisms import Records
    >>> import numpy as np
    >>> audit_sensitivity(np.mean, 0.25, Records(4), evaluations=500).verdict.value
    'NOT_REFUTED'
    >>> round(audit_sensitivity(np.mean, 0.2, Records(4), evaluations=500).ratio, 9)
    1.25
    """
    measure = _Difference(function, claimed_bound, norm, "audit_sensitivity")
    seed, evaluations = require_settings("audit_sensitivity", seed, seconds, evaluations, name)
    require_domain(domain, "audit_sensitivity")
    begin = time.perf_counter()

    def score(pair: Pair, _: FloatArray) -> tuple[float, None]:
        size, error = measure(pair)
        return max(size - error, 0.0) / measure.bound, None

    found = explore(domain, score, evaluations=evaluations, seconds=seconds, seed=seed)
    pair = found.candidates[0].pair if found.candidates else None
    notes = (f"{found.skipped} evaluations skipped: {found.reason}",) if found.skipped else ()
    if pair is None:
        notes = (f"the function converged on none of {found.evaluations} pairs: {found.reason}",)
    return _result(
        measure,
        pair,
        name,
        seed,
        notes=notes,
        progress=tuple(found.trace),
        evaluations=found.evaluations,
        skipped=found.skipped,
        seconds=time.perf_counter() - begin,
    )


def sensitivity_at(
    function: Callable[[Any], Any],
    claimed_bound: float,
    pair: Pair,
    norm: Norm = 2,
    *,
    name: str | None = None,
) -> SensitivityResult:
    """Run `audit_sensitivity` on one given pair. The verdict is ERROR if the function does not
    converge on the pair.
    """
    measure = _Difference(function, claimed_bound, norm, "sensitivity_at")
    require_type("pair", pair, Pair, "be a Pair", "sensitivity_at")
    require_type("name", name, str, "be a text", "sensitivity_at", optional=True)
    try:
        measure(pair)
    except ConvergenceError as error:
        notes = (f"the function did not converge on the pair: {error}",)
        return _result(measure, None, name, progress=(), skipped=0, evaluations=0, notes=notes)
    return _result(measure, pair, name, progress=(), skipped=0, evaluations=1)


def _result(
    measure: _Difference, pair: Pair | None, name: str | None, seed: int = 0, **fields: Any
) -> SensitivityResult:
    bound, verdict = measure.bound, Verdict.ERROR
    size, error, lower = math.nan, 0.0, math.nan
    if pair is not None:
        size, error = measure(pair)
        lower = max(size - error, 0.0) / bound
        slack = 1e-12 if measure.exact else _SLACK  # of exact numbers, only the norm is rounded
        verdict = Verdict.VIOLATED if lower > 1 + slack else Verdict.NOT_REFUTED
    if verdict is Verdict.NOT_REFUTED and measure.coarse and size / bound > 1 + _SLACK:
        note = (
            f"the function moves by {size / bound:.9g} times the claimed bound, an excess within "
            f"the rounding of {measure.coarse} ({error:.3g} at these values): add the rounding to "
            "the bound, or use float64"
        )
        fields["notes"] = (*fields.get("notes", ()), note)
    return SensitivityResult(
        name=name or name_of(measure.function),
        verdict=verdict,
        bound=bound,
        norm=getattr(measure.norm, "__name__", str(measure.norm)),
        ratio=size / bound,
        ratio_lower=lower,
        ratio_upper=(size + error) / bound,
        pair=pair,
        rigorous=measure.rigorous,
        seed=seed,
        target=named(measure.function),
        subject=measure.function,
        norm_used=measure.norm,
        precision=measure.precision,
        **fields,
    )


class _Difference:
    """The difference |f(D) - f(D')| with a bound on its error, and the claimed bound.

    Raise InvalidArgument unless the function, the bound and the norm are valid.
    """

    def __init__(
        self, function: Callable[[Any], Any], claimed_bound: float, norm: Norm, owner: str
    ) -> None:
        require_callable("function", function, owner)
        require_that(
            callable(norm) or (isinstance(norm, int | float) and norm in (1, 2, math.inf)),
            f"norm must be 1, 2, inf or a distance function, got {short_repr(norm)}",
            owner,
        )
        self.bound = require_positive("claimed_bound", claimed_bound, owner)
        self.function, self.norm = function, norm
        self.rigorous = True
        # whether the last pair gave exact numbers: whole numbers, decimals or fractions
        self.exact = False
        self.coarse = ""  # floating-point type below float64 in the last pair, if any

    @property
    def precision(self) -> str:
        """Return the assumed precision of values without error radii."""
        return (
            f"{_ULPS} units in the last place of {self.coarse}"
            if self.coarse
            else "the last digit"
            if self.exact
            else "1e-9"
        )

    def __call__(self, pair: Pair) -> tuple[float, float]:
        (first, r0), (second, r1) = (self._value(dataset) for dataset in (pair.d0, pair.d1))
        self.exact, self.coarse = False, ""
        if callable(self.norm):
            distance = self.norm(first, second)
            size = largest = float(distance)
            _, unit, self.coarse = _precision(distance)
            rounding = _ULPS * unit * size if self.coarse else 0.0
        else:
            size, largest, rounding = self._norm_of_difference(first, second)
        require_that(
            math.isfinite(size),
            f"function must give finite values, got a difference of {size!r}",
            "audit_sensitivity",
        )
        cancelled = 4e-16 * largest  # the difference inherits the rounding of the values
        if r0 is None or r1 is None:
            self.rigorous = False
            return size, 0.0 if self.exact else 1e-9 * size + cancelled + rounding
        self.exact = False
        return size, r0 + r1 + cancelled

    def _norm_of_difference(self, first: Any, second: Any) -> tuple[float, float, float]:
        """Return the norm of the difference, the larger norm of the two values, and the norm of the
        rounding of values below float64.
        """
        sides = [_precision(value) for value in (first, second)]
        shapes = [values.shape for values, _, _ in sides]
        require_that(
            shapes[0] == shapes[1],
            f"function must give one shape, got {shapes[0]} and {shapes[1]}",
            "audit_sensitivity",
        )
        (left, unit_left, coarse_left), (right, unit_right, coarse_right) = sides
        self.coarse, self.exact = (
            coarse_left or coarse_right if unit_left >= unit_right else coarse_right,
            unit_left == unit_right == 0,
        )
        with np.errstate(over="ignore", invalid="ignore"):
            difference = left - right
            rounding = (
                _ULPS * (unit_left * np.abs(left) + unit_right * np.abs(right))
                if self.coarse
                else np.zeros(1)
            )
            size, *both, error = (
                _norm_of(v, self.norm) for v in (difference, left, right, rounding)
            )
        return size, max(both), error

    def _value(self, dataset: Any) -> tuple[Any, float | None]:
        """Return the function's value on the dataset, and its error radius or None."""
        value = self.function(dataset)
        if isinstance(value, tuple) and len(value) == 2:
            return value[0], self._radius(value[1])
        if hasattr(value, "w") and hasattr(value, "radius"):
            return value.w, self._radius(value.radius)
        return value, None

    def _radius(self, radius: Any) -> float:
        """Return the error radius as a float. Raise InvalidArgument unless it is finite and at
        least 0.
        """
        require_that(
            isinstance(radius, int | float | np.floating) and 0 <= radius < math.inf,
            f"function must give a finite error radius, at least 0, got {radius!r}",
            "audit_sensitivity",
        )
        return float(radius)


def _norm_of(vector: Any, norm: Any) -> float:
    """Return the norm of a vector in float64; infinity if a whole number exceeds the floats."""
    try:
        return float(np.linalg.norm(vector.astype(np.float64), norm))
    except OverflowError:  # whole numbers beyond floats
        return math.inf


def _precision(value: Any) -> tuple[Any, float, str]:
    """Return a value as a vector that subtracts exactly, its unit roundoff, and its type if below
    float64.

    Whole numbers become Python's int, decimals and fractions become Fraction, other numbers
    longdouble. The unit roundoff of exact numbers is 0.
    """
    try:
        vector = np.atleast_1d(np.asarray(value)).ravel()
        whole = vector.dtype.kind in "iub" or (
            vector.dtype == object and all(isinstance(each, int) for each in vector)
        )
        if whole:
            return vector.astype(object) * 1, 0.0, ""
        if vector.dtype == object and all(isinstance(each, Decimal | Rational) for each in vector):
            return (
                np.array([Fraction(each) for each in vector] + [None], dtype=object)[:-1],
                0.0,
                "",
            )
        kinds = (
            {np.asarray(each).dtype for each in value}
            if isinstance(value, list | tuple)
            else {vector.dtype}
        )
        exact = vector.astype(np.longdouble)
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgument(
            f"audit_sensitivity: function must give a vector of numbers, got {type(value).__name__}"
        ) from None
    require_that(
        vector.dtype.kind in "fO",
        f"function must give a vector of numbers, got {type(value).__name__}",
        "audit_sensitivity",
    )
    known = [kind for kind in kinds if kind.kind == "f"] or [np.dtype(np.float64)]
    coarsest = max(known, key=lambda kind: float(np.finfo(kind).eps))
    if coarsest == np.float64 and _is_from_float32(vector.astype(np.float64)):
        coarsest = np.dtype(np.float32)
    unit = float(np.finfo(coarsest).eps)
    return exact, unit, coarsest.name if unit > np.finfo(np.float64).eps else ""


def _is_from_float32(values: FloatArray) -> bool:
    """Return whether float64 values seem to be converted from float32: numbers of at most 20
    significant bits decide nothing.
    """
    with np.errstate(over="ignore"):
        converted = values.astype(np.float32) == values
    bits = np.frexp(values)[0] * 2.0**20
    return bool(converted.all() and np.any(bits != np.round(bits)))


_FACTS = (
    line("claimed bound", lambda r: f"{figure(r.get('bound'), 8)}, norm {r.get('norm', '')}"),
    line(
        "largest ratio to the bound",
        lambda r: "{}, in [{}, {}] ({})".format(
            *figures(r, 8, "ratio", "ratio_lower", "ratio_upper"),
            "the solver's error radii" if r.get("rigorous") else "values taken as exact to 1e-9",
        ),
        is_measured,
    ),
    pair_facts,
    line(
        "budget",
        lambda r: (
            f"{count(r.get('evaluations'))} pairs evaluated"
            + (f", {count(r['skipped'])} of them skipped" if r.get("skipped") else "")
        ),
    ),
)


def _recompute(result: Json) -> Recomputed:
    """Check that the verdict follows from the measured ratio. No counts are involved."""
    keys = ("ratio_lower", "ratio", "ratio_upper")
    if not all(key in result for key in keys):
        return Recomputed()
    lower, ratio, upper = (float(result[key]) for key in keys)
    if lower > ratio * (1 + BOUND_TOLERANCE) or ratio > upper * (1 + BOUND_TOLERANCE):
        raise_contradiction(
            result, f"its ratio {ratio:.6g} lies outside its limits, {lower:.6g} and {upper:.6g}"
        )
    require_verdict(
        result, Verdict(result["verdict"]), lower > 1 + _SLACK, f"a ratio of at least {lower:.9g}"
    )
    return Recomputed(values={"ratio_lower": lower})


def _rerun(case: Replay, function: Any, options: RunOptions) -> SensitivityResult:
    """Evaluate the pair of a witness again. A recorded norm that is a function passes the trust
    rules.
    """
    raw = case.raw
    if not float(raw["ratio"]) > 1:
        refuse("ratio", "exceed 1, as that of a violated bound does", raw["ratio"])
    recorded = raw["norm"]
    if isinstance(recorded, dict):
        norm: Norm = case.load_function(recorded, "norm")
    else:
        norm = math.inf if recorded == "inf" else int(recorded)
    pair = read_pair(raw["pair"], case.trust.resolve_class)
    name = case.mechanism_name(function)
    return sensitivity_at(function, raw["bound"], pair, norm, name=name)


KIND = function_kind(
    "sensitivity",
    _FACTS,
    _rerun,
    "replay of a sensitivity witness",
    advice={
        Verdict.VIOLATED.value: (
            "noise scaled to this bound is too small: raise it at least by the ratio below, or "
            "change the function."
        ),
        Verdict.NOT_REFUTED.value: (
            "no change is needed on this evidence, which does not prove the claim; a ratio near 1 "
            "shows that the bound is tight."
        ),
    },
    topic="sensitivity",
    rule="SENSITIVITY",
    measure=Measure(
        "ratio", "ratio_lower", "ratio_lower", "ratio_upper", "{ratio_lower} of the bound"
    ),
    recompute=_recompute,
    witness=(
        {},
        {
            "bound": number(lambda v: v > 0, "positive and finite"),
            "norm": either(dict, FUNCTION, one_of("1", "2", "inf")),
            "pair": PAIR,
            "ratio": EXTENDED,
        },
    ),
    draws=False,
)
