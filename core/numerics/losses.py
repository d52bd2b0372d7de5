"""Losses and kernels of regularized risk minimization, with the constants that the theorems of the
papers need.

*Losses.* Convex losses l(u; y) of a prediction u = <w, x>.

Compiled kernels identify a loss by an integer code. They branch on the code once, outside the loop
over records, so that the loop can be vectorized.

*Kernels.* K(x, z) = <phi(x), phi(z)> and their feature radius R_phi = sup |phi(x)|, which
determines the sensitivity of kernel learners. The linear, polynomial and radial kernels are those
of Jain and Thakurta (2013), section 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dpwitness.core.numerics.jit import jit
from dpwitness.core.protocols import FloatArray
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

    ================== ======================================== ====================== ===========
    name               value                                    Lipschitz in u         l'' at most
    ================== ======================================== ====================== ===========
    ``logistic``       log(1 + exp(-y u)), y = -1 or +1         1                      1/4
    ``hinge``          max(0, 1 - y u), y = -1 or +1            1                      no bound
    ``absolute``       abs(r)                                   1                      no bound
    ``squared``        r^2                                      2 max(abs(u) + abs(y)) 2
    ``huber``          r^2/2 within h, h (abs(r) - h/2) outside h                      1
    ``smoothed-huber`` same, l'' falling linearly on h-s .. h+s h                      1
    ``log-cosh``       h log cosh(r/h)                          1                      1/h
    ``linear``         y u                                      max abs(y)             0
    ================== ======================================== ====================== ===========

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
    """

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
        return self._derivatives(u, y)[0]

    def derivative(self, u: ArrayLike, y: ArrayLike) -> FloatArray:
        """Return the derivative of l(u; y) in u, elementwise; at a kink, the subgradient of
        smallest absolute value.
        """
        return self._derivatives(u, y)[1]

    def second(self, u: ArrayLike, y: ArrayLike) -> FloatArray:
        """Return the second derivative of l(u; y) in u, elementwise.

        The value at a kink is zero; where the Huber loss becomes linear, it is the inner value.
        """
        return self._derivatives(u, y)[2]

    def _derivatives(self, u: ArrayLike, y: ArrayLike) -> list[FloatArray]:
        """Return the derivatives of order 0, 1 and 2, elementwise with broadcasting."""
        left, right = np.broadcast_arrays(
            np.asarray(u, dtype=np.float64), np.asarray(y, dtype=np.float64)
        )
        out = _evaluate(self.code, left.ravel(), right.ravel(), self.width, self.smoothing)
        return [np.asarray(self.scale * order).reshape(left.shape) for order in out]


@jit
def loss_at(
    code: int, u: float, y: float, width: float, smoothing: float
) -> tuple[float, float, float]:
    """Return the loss l(u; y) with this code and its first two derivatives in u, with scale 1."""
    if code == LOGISTIC:
        t = y * u
        e = np.exp(-abs(t))
        slope = -y / (1.0 + np.exp(min(t, 700.0)))
        return max(0.0, -t) + np.log1p(e), slope, e / ((1.0 + e) * (1.0 + e))
    if code == HINGE:
        return max(0.0, 1.0 - y * u), -y if y * u < 1.0 else 0.0, 0.0
    if code == LINEAR:
        return y * u, y, 0.0
    r = u - y
    size, sign = abs(r), np.sign(r)
    if code == ABSOLUTE:
        return size, sign, 0.0
    if code == SQUARED:
        return r * r, 2.0 * r, 2.0
    if code == LOG_COSH:
        z = size / width
        e = np.exp(-2.0 * z)
        curvature = 4.0 * e / (width * (1.0 + e) * (1.0 + e))
        return width * (z + np.log1p(e) - np.log(2.0)), np.tanh(r / width), curvature
    s = smoothing if code == SMOOTHED_HUBER else 0.0
    if size <= width - s:
        return 0.5 * r * r, r, 1.0
    if size >= width + s:
        return width * size - 0.5 * width * width - s * s / 6.0, width * sign, 0.0
    inner, gap = width - s, width + s - size
    value = 0.5 * inner * inner + width * (size - inner)
    value += (gap * gap * gap - 8.0 * s * s * s) / (12.0 * s)
    return value, (width - gap * gap / (4.0 * s)) * sign, min(1.0, gap / (2.0 * s))


@jit
def _evaluate(
    code: int, u: FloatArray, y: FloatArray, width: float, smoothing: float
) -> FloatArray:
    """Return the loss, its first and its second derivative, elementwise and with scale 1."""
    out = np.empty((3, u.size))
    for i in range(u.size):
        out[0, i], out[1, i], out[2, i] = loss_at(code, u[i], y[i], width, smoothing)
    return out


# -- kernels
# --------------------------------------------------------------------------------------------------

_KERNEL_NAMES = ("linear", "polynomial", "rbf")


@dataclass(frozen=True, slots=True)
class Kernel:
    """A positive semi-definite kernel.

    Parameters
    ----------
    name : {"linear", "polynomial", "rbf"}
        <x, z>, (<x, z> + offset)^degree, or exp(-gamma |x - z|^2).
    degree, offset : int, float
        Parameters of the polynomial kernel. The paper's experiments use degree 3 and offset 1.
    gamma : float
        Parameter of the radial kernel. Positive.

    Raises
    ------
    InvalidArgument
        If an argument violates these rules.

    Examples
    --------
    >>> Kernel("polynomial").radius(1.0)
    2.8284271247461903
    """

    name: str = "linear"
    degree: int = 3
    offset: float = 1.0
    gamma: float = 1.0

    def __post_init__(self) -> None:
        require(self).one_of("name", _KERNEL_NAMES).integer("degree").nonnegative(
            "offset"
        ).positive("gamma")

    @property
    def arguments(self) -> tuple[int, int, float, float]:
        """Return the leading arguments of `kernel_value`."""
        return _KERNEL_NAMES.index(self.name), self.degree, float(self.offset), float(self.gamma)

    def radius(self, bound: float) -> float:
        """Return R_phi, the supremum of |phi(x)| over the ball |x| <= `bound`."""
        if self.name == "rbf":
            return 1.0
        return (
            bound
            if self.name == "linear"
            else math.sqrt((bound * bound + self.offset) ** self.degree)
        )

    def __call__(self, x: ArrayLike, z: ArrayLike) -> FloatArray:
        """Return the matrix K(x_i, z_j) for the rows of x and z."""
        left, right = _as_matrix("x", x), _as_matrix("z", z)
        if left.shape[1] != right.shape[1]:
            raise InvalidArgument(
                f"Kernel: x and z must have the same dimension, got {left.shape[1]} and "
                f"{right.shape[1]}"
            )
        return _kernel_matrix(*self.arguments, left, right)

    def gram(self, x: ArrayLike) -> FloatArray:
        """Return the symmetric Gram matrix K(x_i, x_j) of the rows of x. Raise InvalidArgument
        unless the matrix is finite.
        """
        matrix = self(x, x)
        if not np.all(np.isfinite(matrix)):
            i, j = map(int, np.argwhere(~np.isfinite(matrix))[0])
            raise InvalidArgument(
                f"Kernel: {self.name} must be finite on the data, got K(x_{i}, x_{j}) = "
                f"{float(matrix[i, j])!r}"
            )
        return 0.5 * (matrix + matrix.T)


def _as_matrix(name: str, value: ArrayLike) -> FloatArray:
    """Return `value` as a contiguous matrix with one point per row."""
    rows = np.ascontiguousarray(value, dtype=np.float64)
    if rows.ndim != 2:
        raise InvalidArgument(
            f"Kernel: {name} must be a matrix with one point per row, got shape {rows.shape}"
        )
    return rows


@jit
def kernel_value(
    code: int, degree: int, offset: float, gamma: float, x: FloatArray, z: FloatArray
) -> float:
    """Return K(x, z)."""
    total = 0.0
    if code == 2:
        for k in range(x.size):
            total += (x[k] - z[k]) * (x[k] - z[k])
        return np.exp(-gamma * total)  # type: ignore[no-any-return]
    for k in range(x.size):
        total += x[k] * z[k]
    return total if code == 0 else (total + offset) ** degree


@jit
def _kernel_matrix(
    code: int, degree: int, offset: float, gamma: float, x: FloatArray, z: FloatArray
) -> FloatArray:
    """Return the matrix K(x_i, z_j)."""
    out = np.empty((x.shape[0], z.shape[0]))
    for i in range(x.shape[0]):
        for j in range(z.shape[0]):
            out[i, j] = kernel_value(code, degree, offset, gamma, x[i], z[j])
    return out
