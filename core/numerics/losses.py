"""Convex losses l(u; y) of a prediction u = <w, x>, with the constants that the theorems of the
papers need.

Compiled kernels identify a loss by an integer code. They branch on the code once, outside the loop
over records, so that the loop can be vectorized.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dpwitness.core.numerics.arithmetic import elementwise, exponential
from dpwitness.core.numerics.jit import jit
from dpwitness.core.protocols.mechanism import FloatArray
from dpwitness.core.values.validation import InvalidArgument, require

LOGISTIC, HINGE, ABSOLUTE, SQUARED, HUBER, SMOOTHED_HUBER, LOG_COSH, LINEAR = range(8)

LOSSES = {
    "logistic": LOGISTIC,
    "hinge": HINGE,
    "absolute": ABSOLUTE,
    "squared": SQUARED,
    "huber": HUBER,
    "smoothed-huber": SMOOTHED_HUBER,
    "log-cosh": LOG_COSH,
    "linear": LINEAR,
}

_BINARY_LOSSES = ("logistic", "hinge")  # functions of y u, for labels -1 and +1


@dataclass(frozen=True, slots=True)
class Loss:
    """A convex loss, chosen by name.

    With r = u - y, h = `width`, s = `smoothing`, and everything multiplied by `scale`:

    ================== ============================================ ======================== ================
    name               value                                        Lipschitz in u           l'' at
    most
    ================== ============================================ ======================== ================
    ``logistic``       log(1 + exp(-y u)), y = -1 or +1             1                        1/4
    ``hinge``          max(0, 1 - y u), y = -1 or +1                1                        no
    bound ``absolute``       abs(r)                                       1
    no bound ``squared``        r^2                                          2 (max abs(u) + max
    abs(y))  2 ``huber``          r^2/2 within h, h (abs(r) - h/2) outside     h
    1 ``smoothed-huber`` the same, l'' falling linearly on h-s .. h+s h                        1
    ``log-cosh``       h log cosh(r/h)                              1                        1/h
    ``linear``         y u                                          max abs(y)               0
    ================== ============================================ ======================== ================

    Parameters
    ----------
    name : str
        A key of `LOSSES`.
    width : float
        h: the Huber losses become linear at this distance, and log-cosh turns over this distance.
        Positive.
    smoothing : float
        s, in (0, h]. Used by the smoothed Huber loss only, which it makes twice continuously
        differentiable.
    scale : float
        Positive factor.

    Raises
    ------
    InvalidArgument
        If an argument violates these rules.

    Examples
    --------
    >>> Loss("huber").derivative(3.0, 1.0), Loss("logistic").smoothness
    (array(1.), 0.25)
    """  # noqa: E501

    name: str
    width: float = 1.0
    smoothing: float = 0.1
    scale: float = 1.0

    def __post_init__(self) -> None:
        require(self).one_of("name", list(LOSSES)).positive("width", "smoothing", "scale")
        if self.name == "smoothed-huber" and self.smoothing > self.width:
            raise InvalidArgument(
                f"Loss: smoothing must be at most the width {self.width!r}, got {self.smoothing!r}"
            )

    @property
    def code(self) -> int:
        """Return the integer code of this loss in compiled kernels."""
        return LOSSES[self.name]

    @property
    def smooth(self) -> bool:
        """Whether l' is continuous, so that the gradient vanishes at a minimizer."""
        return self.name not in ("hinge", "absolute")

    @property
    def binary(self) -> bool:
        """Whether labels must be -1 or +1."""
        return self.name in _BINARY_LOSSES

    @property
    def smoothness(self) -> float:
        """Return the largest second derivative l'', the constant c_2 of Jain and
        Thakurta (2014).
        """
        curvature = {
            "logistic": 0.25,
            "squared": 2.0,
            "huber": 1.0,
            "smoothed-huber": 1.0,
            "log-cosh": 1.0 / self.width,
            "linear": 0.0,
        }
        return self.scale * curvature.get(self.name, math.inf)

    @property
    def concordance(self) -> float:
        """Return the smallest M with |l'''| <= M l'' (Bach 2010).

        With this constant a Newton step can be certified before the new gradient is evaluated.
        """
        return {"logistic": 1.0, "squared": 0.0, "log-cosh": 2.0 / self.width, "linear": 0.0}.get(
            self.name, math.inf
        )

    def lipschitz(self, prediction: float = math.inf, response: float = math.inf) -> float:
        """Return the largest |l'| for |u| <= `prediction` and |y| <= `response`.

        Only ``squared`` and ``linear`` depend on the two bounds.
        """
        if self.name == "squared":
            return self.scale * 2.0 * (prediction + response)
        if self.name == "linear":
            return self.scale * response
        return self.scale * (self.width if self.name in ("huber", "smoothed-huber") else 1.0)

    def value(self, u: ArrayLike, y: ArrayLike) -> FloatArray:
        """Return the value l(u; y) of the loss, elementwise."""
        return self._evaluate_broadcast(0, u, y)

    def derivative(self, u: ArrayLike, y: ArrayLike) -> FloatArray:
        """Return the derivative of l(u; y) in u, elementwise; at a kink, the subgradient of
        smallest absolute value.
        """
        return self._evaluate_broadcast(1, u, y)

    def second(self, u: ArrayLike, y: ArrayLike) -> FloatArray:
        """Return the second derivative of l(u; y) in u, elementwise.

        The value at a kink is zero; where the Huber loss becomes linear, it is the inner value.
        """
        return self._evaluate_broadcast(2, u, y)

    def _evaluate_broadcast(self, order: int, u: ArrayLike, y: ArrayLike) -> FloatArray:
        """Evaluate the derivative of this order (0, 1 or 2), elementwise with broadcasting."""
        left, right = np.broadcast_arrays(
            np.asarray(u, dtype=np.float64), np.asarray(y, dtype=np.float64)
        )
        out = _evaluate(order, self.code, left.ravel(), right.ravel(), self.width, self.smoothing)
        return np.asarray(self.scale * out).reshape(left.shape)


@jit
def loss_value(code: int, u: float, y: float, width: float, smoothing: float) -> float:
    """Return the loss l(u; y) of the loss function with this code, with scale 1."""
    if code in (LOGISTIC, HINGE):
        t = y * u
        if code == HINGE:
            return max(0.0, 1.0 - t)
        return max(0.0, -t) + np.log1p(np.exp(-abs(t)))  # type: ignore[no-any-return]
    if code == LINEAR:
        return y * u
    r = abs(u - y)
    if code == ABSOLUTE:
        return r
    if code == SQUARED:
        return r * r
    if code == LOG_COSH:
        z = r / width
        return width * (z + np.log1p(np.exp(-2.0 * z)) - np.log(2.0))  # type: ignore[no-any-return]
    s = smoothing if code == SMOOTHED_HUBER else 0.0
    if r <= width - s:
        return 0.5 * r * r
    if r >= width + s:
        return width * r - 0.5 * width * width - s * s / 6.0
    inner, gap = width - s, width + s - r
    return (
        0.5 * inner * inner + width * (r - inner) + (gap * gap * gap - 8.0 * s * s * s) / (12.0 * s)
    )


@jit
def loss_derivative(code: int, u: float, y: float, width: float, smoothing: float) -> float:
    """Return the first derivative l'(u; y) in u of the loss with this code, with scale 1."""
    if code == LOGISTIC:
        return -y / (1.0 + np.exp(min(y * u, 700.0)))  # type: ignore[no-any-return]
    if code == HINGE:
        return -y if y * u < 1.0 else 0.0
    if code == LINEAR:
        return y
    r = u - y
    if code == ABSOLUTE:
        return np.sign(r)  # type: ignore[no-any-return]
    if code == SQUARED:
        return 2.0 * r
    if code == LOG_COSH:
        return np.tanh(r / width)  # type: ignore[no-any-return]
    s = smoothing if code == SMOOTHED_HUBER else 0.0
    size = abs(r)
    if size <= width - s:
        return r
    if size >= width + s:
        return width * np.sign(r)  # type: ignore[no-any-return]
    gap = width + s - size
    return (width - gap * gap / (4.0 * s)) * np.sign(r)  # type: ignore[no-any-return]


@jit
def loss_second(code: int, u: float, y: float, width: float, smoothing: float) -> float:
    """Return the second derivative l''(u; y) in u of the loss with this code, with scale 1."""
    if code == LOGISTIC:
        e = np.exp(-abs(u))
        return e / ((1.0 + e) * (1.0 + e))  # type: ignore[no-any-return]
    if code == SQUARED:
        return 2.0
    if code == LOG_COSH:
        e = np.exp(-2.0 * abs(u - y) / width)
        return 4.0 * e / (width * (1.0 + e) * (1.0 + e))  # type: ignore[no-any-return]
    if code == HUBER:
        return 1.0 if abs(u - y) <= width else 0.0
    if code == SMOOTHED_HUBER:
        return min(1.0, max(0.0, (width + smoothing - abs(u - y)) / (2.0 * smoothing)))
    return 0.0


@jit
def _evaluate(
    order: int, code: int, u: FloatArray, y: FloatArray, width: float, smoothing: float
) -> FloatArray:
    """Return the loss (order 0) or its first or second derivative, elementwise, with scale 1."""
    out = np.empty(u.size)
    for i in range(u.size):
        if order == 0:
            out[i] = loss_value(code, u[i], y[i], width, smoothing)
        elif order == 1:
            out[i] = loss_derivative(code, u[i], y[i], width, smoothing)
        else:
            out[i] = loss_second(code, u[i], y[i], width, smoothing)
    return out


@elementwise
def _logistic_terms(
    u: FloatArray, y: FloatArray, m: FloatArray, slope: FloatArray, curvature: FloatArray
) -> None:
    """Write m_i l' and m_i l'' of the logistic loss into `slope` and `curvature`."""
    for i in range(u.size):
        e = exponential(y[i] * u[i])
        q = 1.0 / (1.0 + e)
        slope[i] = -m[i] * y[i] * q
        curvature[i] = m[i] * q * (q * e)


@elementwise
def _log_cosh_terms(
    u: FloatArray,
    y: FloatArray,
    m: FloatArray,
    slope: FloatArray,
    curvature: FloatArray,
    width: float,
) -> None:
    """Write m_i l' and m_i l'' of the log-cosh loss into `slope` and `curvature`."""
    rate = 2.0 / width
    for i in range(u.size):
        e = exponential(rate * (u[i] - y[i]))
        q = 1.0 / (1.0 + e)
        slope[i] = m[i] * (1.0 - 2.0 * q)
        curvature[i] = m[i] * 2.0 * rate * q * (q * e)


@elementwise
def loss_terms(
    code: int,
    width: float,
    smoothing: float,
    u: FloatArray,
    y: FloatArray,
    m: FloatArray,
    slope: FloatArray,
    curvature: FloatArray,
) -> None:
    """Write m_i l'(u_i; y_i) into `slope` and m_i l''(u_i; y_i) into `curvature`.

    The scale of the loss must be included in the weights m.
    """
    if code == LOGISTIC:
        _logistic_terms(u, y, m, slope, curvature)
    elif code == LOG_COSH:
        _log_cosh_terms(u, y, m, slope, curvature, width)
    else:
        for i in range(u.size):
            slope[i] = m[i] * loss_derivative(code, u[i], y[i], width, smoothing)
            curvature[i] = m[i] * loss_second(code, u[i], y[i], width, smoothing)
