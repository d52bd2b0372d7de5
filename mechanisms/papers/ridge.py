"""Ridge regression by objective perturbation, as released by each organization of a distributed
protocol.

Minami et al., equations (7) and (8): beta = (Sigma + (lambda + Lambda/(epsilon n)) I)^-1 (E_n[y x]
+ b/(2n)), with noise b of density proportional to exp(-epsilon |b| / (2 zeta)). Claims MN-01 to
MN-03.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dpwitness.core import InvalidArgument, LabelledBall, LabelledVectors, Loss, Pair, Truth
from dpwitness.core.balls.ball import EnclosureUnavailable
from dpwitness.core.balls.erm import ObjectivePerturbationEnclosures
from dpwitness.core.balls.law import ClampedLaw, LineLaw
from dpwitness.core.balls.risk import RiskLaw
from dpwitness.core.numerics.draws import Draws, SampledByDraws
from dpwitness.core.numerics.jit import jit
from dpwitness.core.numerics.noise import SphericalNoise, round_to_grid
from dpwitness.core.numerics.solvers import Problem
from dpwitness.core.protocols import FloatArray, available_if, one_law
from dpwitness.core.values.validation import require, require_one_of
from dpwitness.mechanisms.papers.erm import axis, checked_records, replaced
from dpwitness.mechanisms.textbook.categorical import output_rows
from dpwitness.mechanisms.textbook.zoo import PaperSpecimen, PureMechanism

# Lambda of the paper: the largest eigenvalue, over the unit ball, of the Hessian 2 x x^T of (y -
# beta.x)^2.
_CURVATURE = 2.0
# An output this close to the sphere counts as lying on the sphere. The sampler puts constrained
# minimizers on the sphere up to a few rounding errors, and an interior output almost never comes so
# close.
_ON_SPHERE = 1e-11
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)


@one_law
@dataclass(frozen=True, slots=True)
class PrivateRidge(PureMechanism, SampledByDraws, ObjectivePerturbationEnclosures):
    """Private ridge regression by objective perturbation; releases one estimate, a vector of length
    p.

    Parameters
    ----------
    epsilon : float
        Epsilon that the paper claims.
    regularization : float
        lambda in (1/n) sum (y_i - beta.x_i)^2 + lambda |beta|^2. Zero is allowed.
    radius : float
        B: the parameter set Theta is the ball of this radius.
    label_bound : float
        Y: |y| <= Y. The paper assumes bounded y without naming the bound. zeta = 2 (B + Y) bounds
        the gradient on Theta.
    dimension : int
        p. Vectors lie in the unit ball.
    records : int
        n, public.
    form : {"printed", "repaired"}
        Printed: rate epsilon/(2 zeta) and the closed form (8), which is unconstrained and therefore
        has no finite epsilon (MN-03). Repaired: rate epsilon/(4 zeta) and the minimum over Theta,
        which is private at epsilon/2 + log(1 + epsilon/2).
    grid : float
        Released coordinates are rounded to multiples of this number; 0 for no rounding. The low
        bits of unrounded floating-point noise leak.

    Examples
    --------
    >>> ridge = PrivateRidge(epsilon=1.0, regularization=0.1, radius=1.0, label_bound=1.0,
    ...     dimension=1, records=1)
    >>> pair = ridge.worst_pair()
    >>> w = np.array([[12.0]])
    >>> round(float(ridge.log_density(w, pair.d0)[0] - ridge.log_density(w, pair.d1)[0]), 4)
    2.3605
    """

    regularization: float
    radius: float
    label_bound: float
    dimension: int
    records: int
    form: Literal["printed", "repaired"] = "printed"
    grid: float = 0.0

    def __post_init__(self) -> None:
        require(self).positive("epsilon", "radius", "label_bound").nonnegative(
            "regularization", "grid"
        ).integer("dimension", "records").one_of("form", ["printed", "repaired"])

    @property
    def gradient_bound(self) -> float:
        """Return the paper's zeta, the bound on |2 (beta.x - y) x| over Theta."""
        return 2 * (self.radius + self.label_bound)

    @property
    def rate(self) -> float:
        """Return the rate c of the noise density c^p exp(-c |b|) / (Gamma(p) A_p).

        A_p is the area of the unit sphere.
        """
        return self.epsilon / ((2 if self.form == "printed" else 4) * self.gradient_bound)

    @property
    def truth(self) -> Truth:
        if self.form == "printed":
            return Truth(
                math.inf,
                "MN-03 (a): the log-ratio grows linearly in |beta| wherever sum x x^T differs",
                bits_safe=self.grid > 0,
            )
        return Truth(
            self.epsilon / 2 + math.log1p(self.epsilon / 2),
            "MN-03, repair: upper bound epsilon/2 (noise) + log(1 + epsilon/2) (Jacobian)",
            bits_safe=self.grid > 0,
        )

    @property
    def domain(self) -> LabelledBall:
        return LabelledBall(
            self.dimension,
            self.records,
            labels=(-self.label_bound, 0.0, self.label_bound),
            radius=1.0,
        )

    def worst_pair(self, where: Literal["tail", "bulk"] = "tail") -> Pair:
        """Return the worst known neighboring pair: W12 (`tail`) or W13 (`bulk`). Raise
        InvalidArgument if W13 needs more records.

        W12: a zero record and (e1, Y), with all other records zero. W13: (e1, Y) and (e1/2, -Y),
        with small other records. In W13 the common records have x = t e1 and y = -Y with (n - 1) t
        = 50. These records shift the noise that yields beta = -B e1.
        """
        require_one_of("where", where, ["tail", "bulk"], "PrivateRidge.worst_pair")
        unit, bound, others = axis(self.dimension), self.label_bound, self.records - 1
        if where == "tail":
            return replaced(
                self.records,
                (0 * unit, 0.0),
                (unit, bound),
                "W12: sum x x^T differs, the ratio grows in the tail",
                label=0.0,
            )
        if others < 50:
            raise InvalidArgument(
                "PrivateRidge.worst_pair: records must be at least 51 for the pair in the bulk, "
                f"got {self.records}"
            )
        return replaced(
            self.records,
            (unit, bound),
            (0.5 * unit, -bound),
            "W13: noise and Jacobian spend more than epsilon inside Theta",
            [(50 / others * unit, -bound, others)],
        )

    def draws(self, dataset: LabelledVectors) -> Draws:
        """Return the output law on this dataset as a compiled kernel."""
        return Draws(
            fill_estimates,
            (*self._spectrum(dataset), self.rate, self._limit, float(self.grid)),
            int(self.dimension),
        )

    @available_if(lambda self: self.grid == 0)
    def log_density(self, outputs: FloatArray, dataset: LabelledVectors) -> FloatArray:
        """Return the exact log-density at each row.

        Printed form: with respect to volume, from b = 2 (Q beta - M) and its Jacobian det(2 Q).
        Repaired form: the same inside Theta, and minus infinity outside. On the sphere |beta| = B
        the density is with respect to area (for p = 1, the mass of an endpoint). The density there
        is an integral over the multiplier of the constraint. A mechanism with a grid has no such
        method.
        """
        values, basis, target = self._spectrum(dataset)
        rows = output_rows(outputs, self.dimension, "PrivateRidge") @ basis
        noise, lengths = 2.0 * (values * rows - target), np.linalg.norm(rows, axis=1)
        law = SphericalNoise("gamma", self.rate, self.dimension)
        logs = law.log_density(noise) + np.log(2.0 * values).sum()
        constant = float(law.log_density_of_length(np.zeros(1))[0])  # times the Jacobian of 2 Q
        constant += self.dimension * math.log(2.0)
        on_sphere = np.flatnonzero(np.abs(lengths / self._limit - 1.0) <= _ON_SPHERE)
        for i in on_sphere:
            logs[i] = constant + _log_sphere_integral(
                rows[i] / lengths[i], noise[i], values, self.rate, self.radius, _NODES, _WEIGHTS
            )
        logs[lengths > self._limit * (1.0 + _ON_SPHERE)] = -np.inf
        return np.asarray(logs)

    def _check(self, dataset: LabelledVectors) -> None:
        """Raise InvalidArgument unless the dataset is one of this mechanism."""
        checked_records(
            dataset,
            "PrivateRidge",
            radius=1.0,
            label_bound=self.label_bound,
            records=self.records,
            dimension=self.dimension,
        )

    def _risk(self, dataset: LabelledVectors) -> tuple[Problem, SphericalNoise]:
        """Return n times the printed objective, and its noise."""
        self._check(dataset)
        if self.form == "repaired" and self.dimension > 1:
            raise EnclosureUnavailable(
                "PrivateRidge: the mass on the sphere is not enclosed for p >= 2"
            )
        ridge = 2 * (self.records * self.regularization + _CURVATURE / self.epsilon)
        return Problem.of(dataset, Loss("squared"), ridge), SphericalNoise(
            "gamma", self.rate, self.dimension
        )

    def _line_law(self, dataset: LabelledVectors) -> LineLaw:
        """Return the output law in dimension 1."""
        law = RiskLaw.of(*self._risk(dataset))
        return law if self.form == "printed" else ClampedLaw(law, self.radius)

    @available_if(lambda self: self.form == "repaired" and self.dimension == 1)
    def atoms(self, dataset: LabelledVectors) -> FloatArray:
        """Return the ends of Theta, where the constrained minimum has positive mass."""
        return np.array([-self.radius, self.radius])

    @property
    def _limit(self) -> float:
        """Return the radius of the constraint; infinity for the printed form."""
        return math.inf if self.form == "printed" else self.radius

    def _spectrum(self, dataset: LabelledVectors) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return eigenvalues and eigenvectors of Q, and M in that basis.

        Q = sum x x^T + (n lambda + Lambda/epsilon) I and M = sum y x.
        """
        self._check(dataset)
        weighted = dataset.x * dataset.weights[:, None]
        ridge = self.records * self.regularization + _CURVATURE / self.epsilon
        values, basis = np.linalg.eigh(weighted.T @ dataset.x)
        return (
            np.maximum(values, 0.0) + ridge,
            np.ascontiguousarray(basis),
            basis.T @ (weighted.T @ dataset.y),
        )


@jit
def fill_estimates(
    values: FloatArray,
    basis: FloatArray,
    target: FloatArray,
    rate: float,
    limit: float,
    grid: float,
    out: FloatArray,
    rng: np.random.Generator,
) -> None:
    """Fill the rows of `out` with perturbed minimizers.

    The minimizers are computed in the eigenbasis, in which the isotropic noise has the same law.
    """
    p = values.size
    right, solution = np.empty(p), np.empty(p)
    for i in range(len(out)):
        square = 0.0
        for j in range(p):
            right[j] = rng.standard_normal()
            square += right[j] * right[j]
        scale = 0.5 * rng.standard_gamma(float(p)) / (rate * math.sqrt(square))
        for j in range(p):
            right[j] = target[j] + scale * right[j]
        constrained_solution(values, right, limit, solution)
        for j in range(p):
            total = 0.0
            for k in range(p):
                total += basis[j, k] * solution[k]
            out[i, j] = round_to_grid(total, grid)


@jit
def constrained_solution(
    values: FloatArray, right: FloatArray, limit: float, out: FloatArray
) -> None:
    """Write argmin w.diag(values).w/2 - right.w over |w| <= limit into `out`."""
    square = 0.0
    for j in range(values.size):
        out[j] = right[j] / values[j]
        square += out[j] * out[j]
    if square > limit * limit:
        multiplier = _multiplier(values, right, limit)
        square = 0.0
        for j in range(values.size):
            out[j] = right[j] / (values[j] + multiplier)
            square += out[j] * out[j]
        for j in range(values.size):
            out[j] *= limit / math.sqrt(square)


@jit
def _multiplier(values: FloatArray, right: FloatArray, limit: float) -> float:
    """Return the mu > 0 with |(diag(values) + mu)^-1 right| = limit.

    The method is Newton on 1/norm, which is concave, so that the steps never overshoot.
    """
    mu = 0.0
    for _ in range(200):
        square, slope = 0.0, 0.0
        for j in range(values.size):
            entry = right[j] / (values[j] + mu)
            square += entry * entry
            slope += entry * entry / (values[j] + mu)
        norm = math.sqrt(square)
        step = (norm - limit) / limit * square / slope
        mu += step
        if abs(step) <= 1e-15 * (mu + values[0]):
            break
    return mu


@jit
def _log_sphere_integral(
    unit: FloatArray,
    noise: FloatArray,
    values: FloatArray,
    rate: float,
    limit: float,
    nodes: FloatArray,
    weights: FloatArray,
) -> float:
    """Return the log of the integral over mu >= 0 of exp(-c |b(mu)|) B det(E^T (Q + mu) E).

    Here b(mu) = b(0) + 2 mu B u, and the columns of E span the tangent space at u. det(E^T A E) =
    det(A) u^T A^-1 u. Let s = b(mu).u and h the distance of the line b(mu) from 0. Then |b(mu)| =
    sqrt(s^2 + h^2), and the panels shrink towards s = 0, where this may have a kink.
    """
    p = unit.size
    start, square = 0.0, 0.0
    for j in range(p):
        start += noise[j] * unit[j]
        square += noise[j] * noise[j]
    across = math.sqrt(max(0.0, square - start * start))
    cutoff = (60.0 + 8.0 * p) / rate
    cutoff = math.sqrt(cutoff * (cutoff + 2.0 * across))
    log_scale, total = -np.inf, 0.0  # the integral is total * exp(log_scale)
    for side in (1.0, -1.0):
        origin = max(start, 0.0)
        if side < 0.0 and start >= 0.0:
            break
        outer = cutoff if side > 0.0 else min(cutoff, -start)
        for level in range(32):
            inner = 0.0 if level == 31 else 0.5 * outer
            for k in range(nodes.size):
                s = origin + side * (inner + 0.5 * (outer - inner) * (nodes[k] + 1.0))
                mu = (s - start) / (2.0 * limit)
                log_product, inverse = 0.0, 0.0
                for j in range(p):
                    log_product += math.log(values[j] + mu)
                    inverse += unit[j] * unit[j] / (values[j] + mu)
                log_term = (
                    log_product + math.log(inverse) - rate * math.sqrt(s * s + across * across)
                )
                log_term += math.log(0.5 * (outer - inner) * weights[k])
                if log_term > log_scale:
                    total = total * math.exp(log_scale - log_term) + 1.0 if total > 0.0 else 1.0
                    log_scale = log_term
                else:
                    total += math.exp(log_term - log_scale)
            outer = inner
    return log_scale + math.log(0.5 * total)


def specimens() -> Iterator[tuple[str, PaperSpecimen]]:
    """Yield the names and specimens of the zoo."""
    for form in ("printed", "repaired"):
        for p in (1, 2):
            ridge = PrivateRidge(1.0, 0.1, 1.0, 1.0, p, 60, form=form)
            yield (
                f"ridge-{form}-p{p}",
                PaperSpecimen(
                    ridge,
                    (ridge.worst_pair("tail"), ridge.worst_pair("bulk")),
                    settled=form == "repaired",
                    trials=100_000,
                ),
            )
