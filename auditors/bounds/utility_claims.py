"""Claims about a mechanism's error: a bound on the failure probability, a bound on the mean, or a scaling law."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dpwitness.mechanisms.core.validation import InvalidArgument, require, require_callable, require_positive, shown

_MIN_SPAN, _MIN_POINTS = 64.0, 4


@dataclass(frozen=True, slots=True)
class FailureBound:
    """Claim that P(error > `bound`) <= `beta`."""

    bound: float
    beta: float

    def __post_init__(self) -> None:
        require(self).finite("bound").probability("beta", zero=True)

    def __str__(self) -> str:
        return f"error <= {self.bound:.6g} with probability {1 - self.beta:.6g}"


@dataclass(frozen=True, slots=True)
class MeanBound:
    """Claim that E[error] <= `bound`.

    Parameters
    ----------
    bound : float
        Claimed upper bound on the mean error.
    low : float
        Smallest possible error, which suffices to refute the bound. Not used if `deviation` is given.
    high : float, optional
        Largest possible error. Without `high` or `deviation`, no upper confidence limit exists.
    deviation : float, optional
        Assumed upper bound on the standard deviation of the error, instead of a range.
    """

    bound: float
    low: float = 0.0
    high: float | None = None
    deviation: float | None = None

    def __post_init__(self) -> None:
        require(self).finite("bound", "low")
        if self.deviation is not None:
            require(self).positive("deviation")
        if self.high is not None:
            require(self).finite("high")
            if self.deviation is not None:
                raise InvalidArgument("MeanBound: high and deviation must not both be given: a range is enough")
            if self.high <= self.low:
                raise InvalidArgument(f"MeanBound: high must be above low = {self.low:g}, got {self.high!r}")

    def __str__(self) -> str:
        return f"mean error <= {self.bound:.6g}"

    @property
    def given(self) -> str:
        """Return the assumption on which the limits of the mean rest."""
        if self.deviation is not None:
            return f"assuming a standard deviation of at most {self.deviation:.6g}"
        return f"for errors of at least {self.low:.6g}" if self.high is None else f"for errors in [{self.low:.6g}, {self.high:.6g}]"


@dataclass(frozen=True, slots=True)
class Scaling:
    """Claim that the error grows at most like `transform`(value)^`exponent` (falls at least as fast, for a negative exponent).

    Parameters
    ----------
    exponent : float
        Claimed exponent. Finite.
    grid : sequence of float
        Values of the parameter at which the error is measured: at least 4, positive, spanning a factor of at least 64.
    parameter : str
        Name of the parameter in the report.
    transform : callable, optional
        Function of the parameter, such as ``math.log`` for a claim in log p. Positive on the grid.
    statistic : {"median", "mean"}
        Statistic of the error over the runs. The test of medians holds for every law; the test of means needs `spread`.
    spread : float, optional
        Assumed upper bound on the error's standard deviation, in units of the mean error, at every value of the grid.
    """

    exponent: float
    grid: tuple[float, ...]
    parameter: str = "n"
    transform: Callable[[float], float] | None = None
    statistic: str = "median"
    spread: float | None = None

    def __post_init__(self) -> None:
        require(self).finite("exponent").one_of("statistic", ["median", "mean"])
        if self.spread is not None:
            require(self).positive("spread")
            if self.statistic != "mean":
                raise InvalidArgument(f"Scaling: spread must be left out for the median, got {self.spread!r}")
        if not isinstance(self.grid, Sequence) or isinstance(self.grid, str):
            raise InvalidArgument(f"Scaling: grid must be a sequence of numbers, got {shown(self.grid)}")
        require_callable("transform", self.transform, "Scaling", arguments=1, optional=True)
        values = sorted({require_positive("grid", value, "Scaling") for value in self.grid})
        if len(values) < _MIN_POINTS or values[-1] < _MIN_SPAN * values[0] * (1 - 1e-12):
            found = f"{len(values)} spanning {values[-1] / values[0]:.6g}x" if values else "none"
            raise InvalidArgument(f"Scaling: grid must hold at least 4 different values that span at least 64x, got {found}")
        object.__setattr__(self, "grid", tuple(values))
        for value in values:
            if not self.regressor(value) > 0:
                raise InvalidArgument(f"Scaling: transform must be positive on the grid, got {self.regressor(value)!r} at {value!r}")

    def regressor(self, value: float) -> float:
        """Return the transformed parameter, of which the error is a power."""
        return float(self.transform(value)) if self.transform else float(value)

    @property
    def name(self) -> str:
        """Return the name of the transformed parameter."""
        return getattr(self.transform, "__name__", "f") + f"({self.parameter})" if self.transform else self.parameter

    def __str__(self) -> str:
        return f"error = O({self.name}^{self.exponent:g})"

    @property
    def given(self) -> str:
        """Return the assumption on which the limits of the slope rest."""
        if self.statistic == "median":
            return "exact for every law"
        if self.spread is None:
            return "not a test at a stated error: two standard errors of a regression; state spread, or use the median"
        return f"assuming standard deviations of at most {self.spread:.6g} means"


UtilityClaim = FailureBound | MeanBound | Scaling
