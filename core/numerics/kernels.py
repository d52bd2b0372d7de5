"""Kernels K(x, z) = <phi(x), phi(z)> and their feature radius R_phi = sup |phi(x)|.

The sensitivity of kernel learners depends on the feature radius. The linear, polynomial and radial
kernels are those of Jain and Thakurta (2013), section 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike

from dpwitness.core.numerics.jit import jit
from dpwitness.core.protocols.mechanism import FloatArray
from dpwitness.core.values.validation import InvalidArgument, require, require_positive, short_repr

_KERNEL_NAMES = ("linear", "polynomial", "rbf", "custom")


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel: one of the named kernels, or a compiled function of the user.

    Parameters
    ----------
    name : {"linear", "polynomial", "rbf", "custom"}
        <x, z>, (<x, z> + offset)^degree, exp(-gamma |x - z|^2), or `function`.
    degree, offset : int, float
        Parameters of the polynomial kernel. The paper's experiments use degree 3 and offset 1.
    gamma : float
        Parameter of the radial kernel. Positive.
    function : callable, optional
        ``f(x, z) -> float`` on two vectors, compiled with Numba's ``njit``. It must be symmetric
        and positive semi-definite, which `gram` checks on the data.
    feature_radius : float, optional
        R_phi of a custom kernel. Positive. Required for a custom kernel, since it cannot be
        computed from `function`.

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
    function: Callable[[FloatArray, FloatArray], float] | None = None
    feature_radius: float | None = None

    def __post_init__(self) -> None:
        require(self).one_of("name", _KERNEL_NAMES).integer("degree").nonnegative(
            "offset"
        ).positive("gamma")
        if (self.name == "custom") != (self.function is not None):
            raise InvalidArgument(
                "Kernel: function must be given exactly for the custom kernel, got "
                f"{short_repr(self.function)} for {short_repr(self.name)}"
            )
        if self.name == "custom":
            require_positive("feature_radius", self.feature_radius, "Kernel")

    @property
    def arguments(self) -> tuple[int, int, float, float]:
        """Return the leading arguments of `kernel_value`, for the named kernels."""
        return _KERNEL_NAMES.index(self.name), self.degree, float(self.offset), float(self.gamma)

    def radius(self, bound: float) -> float:
        """Return R_phi, the supremum of |phi(x)| over the ball |x| <= `bound`."""
        if self.name == "custom":
            return require_positive("feature_radius", self.feature_radius, "Kernel")
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
        if self.function is not None:
            return np.asarray(_compiled_custom_matrix(self.function, left, right))
        return _named_matrix(*self.arguments, left, right)

    def gram(self, x: ArrayLike) -> FloatArray:
        """Return the Gram matrix K(x_i, x_j) of the rows of x, after checking that the matrix is
        valid.

        Raises
        ------
        InvalidArgument
            If the matrix is not finite, is not symmetric, or has an eigenvalue that is negative by
            more than rounding.
        """
        matrix = self(x, x)
        if not np.all(np.isfinite(matrix)):
            i, j = map(int, np.argwhere(~np.isfinite(matrix))[0])
            raise InvalidArgument(
                f"Kernel: {self.name} must be finite on the data, got K(x_{i}, x_{j}) = "
                f"{float(matrix[i, j])!r}"
            )
        largest = float(np.abs(matrix).max())
        gap = np.abs(matrix - matrix.T)
        if gap.max() > 1e-12 * largest:
            i, j = map(int, np.unravel_index(int(gap.argmax()), gap.shape))
            values = (
                f"K(x_{i}, x_{j}) = {float(matrix[i, j])!r} and K(x_{j}, x_{i}) = "
                f"{float(matrix[j, i])!r}"
            )
            raise InvalidArgument(f"Kernel: {self.name} must be symmetric, got {values}")
        matrix = 0.5 * (matrix + matrix.T)
        smallest = float(np.linalg.eigvalsh(matrix)[0])
        if smallest < -1e-12 * len(matrix) * largest:
            raise InvalidArgument(
                f"Kernel: {self.name} must be positive semi-definite on the data, got "
                f"smallest eigenvalue {smallest:.6g}"
            )
        return matrix


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
    """Return K(x, z) for a named kernel."""
    total = 0.0
    if code == 2:
        for k in range(x.size):
            total += (x[k] - z[k]) * (x[k] - z[k])
        return np.exp(-gamma * total)  # type: ignore[no-any-return]
    for k in range(x.size):
        total += x[k] * z[k]
    return total if code == 0 else (total + offset) ** degree


@jit
def _named_matrix(
    code: int, degree: int, offset: float, gamma: float, x: FloatArray, z: FloatArray
) -> FloatArray:
    """Return the matrix K(x_i, z_j) of a named kernel."""
    out = np.empty((x.shape[0], z.shape[0]))
    for i in range(x.shape[0]):
        for j in range(z.shape[0]):
            out[i, j] = kernel_value(code, degree, offset, gamma, x[i], z[j])
    return out


def _custom_matrix(function: Any, x: FloatArray, z: FloatArray) -> FloatArray:
    """Return the matrix function(x_i, z_j) of a custom kernel."""
    out = np.empty((x.shape[0], z.shape[0]))
    for i in range(x.shape[0]):
        for j in range(z.shape[0]):
            out[i, j] = function(x[i], z[j])
    return out


# not cached on disk: each user function needs its own compilation
_compiled_custom_matrix = njit(nogil=True)(_custom_matrix)
