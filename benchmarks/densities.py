"""Difficult densities with known truth for the calibration of `certify`.

`densities` are pairs of laws on the line that violate their claim by a known amount; a certifier
that misses narrow, rare or distant parts certifies them. Each is a mixture of pieces with known
masses, from which the truth is computed.

`awkward` are laws of one or more numbers, correct and faulty. Unless noted, the dataset, an array
of one number, shifts the law. For a correct density the verdict must not be ERROR, nor a wrong
CERTIFIED or VIOLATED. For a faulty density it must be ERROR, or at least no verdict.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy.special import gammaln, log_ndtr, logsumexp, ndtr
from scipy.stats import beta, cauchy, laplace, multivariate_normal, norm, t, uniform

from dpwitness.auditors.density.result import CertifyResult
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.benchmarks.specimens import PAIR
from dpwitness.core.claims import GDP, ZCDP, ApproxDP, Claim, PureDP
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.protocols import FloatArray


@dataclass(frozen=True, slots=True)
class Piece:
    """Component of a mixture, with a mass on each dataset.

    The law is "normal", "laplace" or "cauchy", with center and scale, or "slab", a uniform law with
    center and width.
    """

    mass0: float
    mass1: float
    law: str = "normal"
    center0: float = 0.0
    center1: float = 0.0
    scale: float = 1.0

    def sample(self, size: int, center: float, rng: Generator) -> FloatArray:
        draw = {
            "normal": lambda: rng.standard_normal(size),
            "laplace": lambda: rng.laplace(size=size),
            "cauchy": lambda: rng.standard_cauchy(size),
            "slab": lambda: rng.random(size) - 0.5,
        }[self.law]()
        return np.asarray(center + self.scale * draw)

    def log_density(self, y: FloatArray, center: float) -> FloatArray:
        z = (y - center) / self.scale
        with np.errstate(divide="ignore"):
            value = {
                "normal": -0.5 * z * z - 0.5 * math.log(2 * math.pi),
                "laplace": -np.abs(z) - math.log(2),
                "cauchy": -np.log1p(z * z) - math.log(math.pi),
                "slab": np.where(np.abs(z) <= 0.5, 0.0, -np.inf),
            }[self.law]
        return np.asarray(value - math.log(self.scale))


@dataclass(frozen=True)
class Mixture:
    """Mechanism with the density of a mixture, and the claim that it violates, if there is one."""

    pieces: tuple[Piece, ...]
    claim: Claim | None = None

    def sample(self, data: Any, size: int, rng: Generator) -> FloatArray:
        one = data[0] > 0
        masses = np.array([piece.mass1 if one else piece.mass0 for piece in self.pieces])
        piece_index = rng.choice(len(self.pieces), size=size, p=masses / masses.sum())
        out = np.empty(size)
        for i, piece in enumerate(self.pieces):
            at = piece_index == i
            out[at] = piece.sample(int(at.sum()), piece.center1 if one else piece.center0, rng)
        return out

    def log_density(self, outputs: Any, data: Any) -> FloatArray:
        one, y = data[0] > 0, np.asarray(outputs, dtype=float).reshape(len(outputs), -1)[:, 0]
        with np.errstate(divide="ignore"):
            parts = [
                np.log(piece.mass1 if one else piece.mass0)
                + piece.log_density(y, piece.center1 if one else piece.center0)
                for piece in self.pieces
            ]
        return np.asarray(logsumexp(parts, axis=0))


def _spike(mass: float, width: float, at: float = 1.234567) -> tuple[Piece, ...]:
    """Return a normal law with a narrow slab of the given mass, on D1 only."""
    return Piece(1.0, 1.0 - mass), Piece(0.0, mass, "slab", at, at, width)


def _swap(mass: float, width: float, at: float = 0.7654321) -> tuple[Piece, ...]:
    """Return two narrow slabs whose masses, in the ratio 1000, are swapped between the datasets."""
    small_mass = mass / 1000
    return (
        Piece(1 - mass - small_mass, 1 - mass - small_mass),
        Piece(mass, small_mass, "slab", at, at, width),
        Piece(small_mass, mass, "slab", at + 3 * width, at + 3 * width, width),
    )


def _far(mass: float, center: float, law: str = "slab", scale: float = 1.0) -> tuple[Piece, ...]:
    """Return Laplace noise with a rare piece far away, 20 times as likely on D1."""
    return Piece(1 - mass / 20, 1 - mass, "laplace"), Piece(
        mass / 20, mass, law, center, center, scale
    )


def densities() -> dict[str, Mixture]:
    """Return all densities by name; each truth exceeds its claim."""
    found = {
        f"spike of mass {mass:g} and width {width:g}": Mixture(
            _spike(mass, width), ApproxDP(3.0, mass / 2)
        )
        for mass, width in (
            (2e-5, 1e-7),
            (1e-4, 1e-6),
            (1e-4, 1e-9),
            (1e-3, 1e-5),
            (1e-2, 1e-3),
            (1e-6, 1e-9),
            (3e-5, 1e-6),
        )
    }
    found |= {
        f"swapped slivers of mass {mass:g} and width {width:g}, {claim}": Mixture(
            _swap(mass, width), claim
        )
        for mass, width, claim in (
            (1e-4, 1e-7, PureDP(1.0)),
            (1e-3, 1e-5, PureDP(3.0)),
            (1e-3, 1e-6, ApproxDP(1.0, 1e-4)),
            (1e-2, 1e-5, GDP(0.5)),
            (1e-2, 1e-6, ZCDP(0.001)),
            (1e-5, 1e-8, PureDP(2.0)),
        )
    }
    found |= {
        "rare slab at 60": Mixture(_far(1e-6, 60.0), PureDP(1.0)),
        "rare slab at -1e4": Mixture(_far(1e-7, -1e4, scale=0.01), PureDP(1.0)),
        "rare slab at 1e8": Mixture(_far(1e-5, 1e8), PureDP(1.0)),
        "rare narrow normal at 30": Mixture(_far(1e-4, 30.0, "normal", 1e-3), PureDP(2.0)),
        "sentinel value": Mixture(_far(1e-7, -999.0, scale=1e-9), PureDP(1.0)),
        "Laplace, scale 2 % small": Mixture((Piece(1, 1, "laplace", 0.0, 1.0, 0.98),), PureDP(1.0)),
        "Cauchy, claim 1 % small": Mixture(
            (Piece(1, 1, "cauchy", 0.0, 1.0),), PureDP(0.99 * math.log((3 + math.sqrt(5)) / 2))
        ),
        "normal, pure": Mixture((Piece(1, 1, "normal", 0.0, 0.1),), PureDP(1.0)),
        "normal, mu 1 % large": Mixture((Piece(1, 1, "normal", 0.0, 1.01),), GDP(1.0)),
        "normal, rho 2 % large": Mixture((Piece(1, 1, "normal", 0.0, 1.01),), ZCDP(0.5)),
        "Laplace and a spike one in a thousand": Mixture(
            (
                Piece(0.999, 0.999, "laplace", 0.0, 0.5),
                Piece(0.0009, 0.0001, "slab", 9.0, 9.0, 1e-8),
                Piece(0.0001, 0.0009, "slab", 7.0, 7.0, 1e-8),
            ),
            PureDP(1.0),
        ),
    }
    return found


Draw = Callable[[float, int, np.random.Generator], FloatArray]
LogDensity = Callable[[FloatArray, float], FloatArray]


@dataclass(frozen=True, eq=False)
class Law:
    """Mechanism from a sampler and a log-density of rows, given the single number of
    the dataset.
    """

    draw: Draw
    density: LogDensity

    def sample(self, dataset: Any, size: int, rng: np.random.Generator) -> FloatArray:
        return np.asarray(self.draw(float(np.sum(dataset)), size, rng), dtype=float).reshape(
            size, -1
        )

    def log_density(self, outputs: FloatArray, dataset: Any) -> FloatArray:
        rows = np.asarray(outputs, dtype=float)
        with np.errstate(all="ignore"):
            return np.asarray(
                self.density(rows.reshape(len(rows), -1), float(np.sum(dataset))), dtype=float
            )


@dataclass(frozen=True, eq=False)
class Awkward:
    """Case: law, claim, and known truth.

    Attributes
    ----------
    truth : float
        Smallest parameter of the claim's notion that the density satisfies on the pair; infinity if
        there is none.
    right : bool
        Whether the density agrees with the sampler.
    """

    name: str
    mechanism: Law | Mixture
    claim: Claim
    truth: float
    right: bool = True
    trials: int = 20_000
    pair: Pair = PAIR

    def wrong(self, result: CertifyResult) -> bool:
        """Return whether a verdict is wrong.

        For a correct density, wrong verdicts are ERROR, CERTIFIED if the truth exceeds the claim,
        and VIOLATED if it does not. For a faulty density, every verdict except ERROR and
        INCONCLUSIVE is wrong.
        """
        if not self.right:
            return result.verdict not in (Verdict.ERROR, Verdict.INCONCLUSIVE)
        claim_holds = self.truth <= self.claim.parameter * (1 + 1e-9)
        wrong_verdicts = (
            (Verdict.ERROR, Verdict.VIOLATED) if claim_holds else (Verdict.ERROR, Verdict.CERTIFIED)
        )
        return result.verdict in wrong_verdicts


def awkward() -> list[Awkward]:
    """Return all cases."""
    return [*_correct_cases(), *_faulty_cases()]


def _additive_noise(
    standard: Callable[[int, np.random.Generator], FloatArray],
    density: Any,
    scale: float = 1.0,
    at: float = 0.0,
) -> Law:
    """Return additive noise on one number: scale * standard."""
    return Law(
        lambda d, n, rng: at + d + scale * standard(n, rng),
        lambda y, d: density.logpdf((y[:, 0] - at - d) / scale) - math.log(scale),
    )


def _clamped(low: float, high: float) -> Law:
    """Return clamped Laplace noise, which has point masses at both ends."""

    def density(y: FloatArray, d: float) -> FloatArray:
        x = y[:, 0]
        inside = np.where((x > low) & (x < high), laplace.logpdf(x - d), -np.inf)
        return np.where(
            x == low, laplace.logcdf(low - d), np.where(x == high, laplace.logsf(high - d), inside)
        )

    return Law(lambda d, n, rng: np.clip(d + rng.laplace(size=n), low, high), density)


def _student(freedom: float) -> Law:
    """Return Student noise."""
    return _additive_noise(lambda n, rng: rng.standard_t(freedom, n), t(freedom))


def _student_loss(freedom: float) -> float:
    """Return the largest privacy loss of a Student shift by 1.

    The loss (nu + 1)/2 ln((nu + x^2)/(nu + (x - 1)^2)) is largest where x^2 - x = nu.
    """
    x = 0.5 * (1 + math.sqrt(1 + 4 * freedom))
    return 0.5 * (freedom + 1) * math.log((freedom + x * x) / (freedom + (x - 1) ** 2))


def _correlated(rho: float) -> Law:
    """Return two normal numbers with correlation rho, both shifted by d: mu^2 = 2 / (1 + rho)."""
    root = np.linalg.cholesky(np.array([[1.0, rho], [rho, 1.0]]))
    law = multivariate_normal(cov=np.array([[1.0, rho], [rho, 1.0]]), allow_singular=True)
    return Law(
        lambda d, n, rng: d + rng.standard_normal((n, 2)) @ root.T,
        lambda y, d: np.atleast_1d(law.logpdf(y - d)),
    )


def _narrow(mass: float, width: float, at: float, ratio: float) -> Mixture:
    """Return Laplace noise of scale 1 mixed with a uniform law on a narrow interval.

    The interval has probability `mass` on D1 and mass / ratio on D0.
    """
    middle, rest = at + width / 2, mass / ratio
    return Mixture(
        (
            Piece(1 - rest, 1 - mass, "laplace", 0.0, 1.0),
            Piece(rest, mass, "slab", middle, middle, width),
        )
    )


def _sentinel(mass: float) -> Law:
    """Return Laplace noise that is replaced by the number -1 with probability `mass`,
    on D1 only.
    """

    def draw(d: float, n: int, rng: np.random.Generator) -> FloatArray:
        y = d + rng.laplace(size=n)
        return np.where(rng.random(n) < mass * d, -1.0, y)

    def density(y: FloatArray, d: float) -> FloatArray:
        x = y[:, 0]
        base = math.log1p(-mass * d) + laplace.logpdf(x - d)
        return np.where(x == -1.0, math.log(mass) if d > 0.5 else -math.inf, base)

    return Law(draw, density)


def _randomized_response(
    epsilon: float, sampled: float | None = None, sentinel: float = 0.0
) -> Law:
    """Return randomized response; with probability `sentinel` the output is 2, on D1 only. The
    density includes this output.
    """

    def draw(d: float, n: int, rng: np.random.Generator) -> FloatArray:
        p = 1 / (1 + math.exp(-(epsilon if sampled is None else sampled)))
        y = np.where(rng.random(n) < p, d, 1 - d)
        return np.where(rng.random(n) < sentinel * d, 2.0, y)

    def density(y: FloatArray, d: float) -> FloatArray:
        x, p = y[:, 0], 1 / (1 + math.exp(-epsilon))
        log_mass = np.where(
            x == d, math.log(p), np.where(x == 1 - d, math.log1p(-p), -np.inf)
        ) + math.log1p(-sentinel * d)
        return np.where(
            x == 2.0, math.log(sentinel * d) if sentinel * d > 0 else -math.inf, log_mass
        )

    return Law(draw, density)


def _mixture(gap: float) -> Mixture:
    """Return an equal mixture of N(d, .2^2) and N(d + gap, .2^2); its privacy loss is almost that
    of a Gaussian with mu = 5.
    """
    centers = ((0.0, 1.0), (gap, gap + 1.0))
    return Mixture(tuple(Piece(0.5, 0.5, "normal", *each, 0.2) for each in centers))


def _truncated() -> Law:
    """Return normal noise truncated to [-3, 3] around d / 4, so that each dataset has outputs that
    the other cannot produce.
    """

    def draw(d: float, n: int, rng: np.random.Generator) -> FloatArray:
        y = rng.standard_normal(n)
        while (out := np.abs(y) > 3).any():
            y[out] = rng.standard_normal(int(out.sum()))
        return d / 4 + y

    total = math.log(ndtr(3.0) - ndtr(-3.0))
    return Law(
        draw,
        lambda y, d: np.where(
            np.abs(y[:, 0] - d / 4) <= 3, norm.logpdf(y[:, 0] - d / 4) - total, -np.inf
        ),
    )


def _radial_noise(k: int) -> Law:
    """Return noise with density proportional to e^-|x| in k dimensions; a shift by one has privacy
    loss 1.
    """
    constant = gammaln(k) + math.log(2) + 0.5 * k * math.log(math.pi) - gammaln(0.5 * k)

    def draw(d: float, n: int, rng: np.random.Generator) -> FloatArray:
        u = rng.standard_normal((n, k))
        y = rng.gamma(k, size=(n, 1)) * u / np.linalg.norm(u, axis=1)[:, None]
        y[:, 0] += d
        return np.asarray(y)

    def density(y: FloatArray, d: float) -> FloatArray:
        return np.asarray(-np.linalg.norm(y - d * np.eye(1, k), axis=1) - float(constant))

    return Law(draw, density)


def _correct_cases() -> list[Awkward]:
    """Return the cases whose density agrees with the sampler."""
    normal = norm()
    plain = lambda n, rng: rng.standard_normal(n)  # noqa: E731
    laplacian = lambda n, rng: rng.laplace(size=n)  # noqa: E731
    return [
        Awkward("laplace clamped", _clamped(-8.0, 9.0), PureDP(1.0), 1.0),
        Awkward("laplace clamped near", _clamped(-2.0, 5.0), PureDP(1.0), 1.0),
        Awkward("laplace clamped far", _clamped(-12.0, 13.0), ApproxDP(1.0, 1e-6), 1.0 - 1e-6),
        Awkward("correlation .999999", _correlated(0.999999), GDP(1.01), math.sqrt(2 / 1.999999)),
        Awkward("correlation -.99", _correlated(-0.99), GDP(10.0), math.sqrt(2 / 0.01)),
        Awkward(
            "student 1",
            _additive_noise(lambda n, rng: rng.standard_cauchy(n), cauchy),
            PureDP(1.0),
            _student_loss(1.0),
        ),
        Awkward("student 1.5", _student(1.5), PureDP(1.0), _student_loss(1.5)),
        Awkward("student .4", _student(0.4), PureDP(1.2), _student_loss(0.4)),
        Awkward(
            "normal of scale 1e-3", _additive_noise(plain, normal, 1e-3), PureDP(1.0), math.inf
        ),
        Awkward(
            "normal of scale .02, losses of 1e3",
            _additive_noise(plain, normal, 0.02),
            GDP(51.0),
            50.0,
        ),
        Awkward(
            "laplace of scale 1e-9", _additive_noise(laplacian, laplace, 1e-9), PureDP(2e9), 1e9
        ),
        Awkward("laplace at 1e6", _additive_noise(laplacian, laplace, 1.0, 1e6), PureDP(1.0), 1.0),
        Awkward(
            "spike of mass 2e-5",
            _narrow(2e-5, 1e-7, 3.3, math.inf),
            ApproxDP(1.0, 1e-5),
            math.inf,
            trials=100_000,
        ),
        Awkward(
            "spike of mass .02, swapped",
            _narrow(0.02, 1e-7, 0.37, 100.0),
            PureDP(1.5),
            math.log(100.0),
        ),
        Awkward(
            "sliver of mass 1e-4, one-sided",
            _narrow(1e-4, 1e-9, -2.2, math.inf),
            PureDP(1.5),
            math.inf,
            trials=100_000,
        ),
        Awkward(
            "sliver, zCDP", _narrow(1e-4, 1e-9, -2.2, math.inf), ZCDP(0.6), math.inf, trials=100_000
        ),
        Awkward(
            "sliver, GDP", _narrow(1e-4, 1e-9, -2.2, math.inf), GDP(1.5), math.inf, trials=100_000
        ),
        Awkward("sentinel of mass 1e-7", _sentinel(1e-7), PureDP(1.1), math.inf),
        Awkward("sentinel of mass 1e-3", _sentinel(1e-3), PureDP(1.1), math.inf),
        Awkward(
            "answers with a sentinel of 1e-7",
            _randomized_response(1.0, sentinel=1e-7),
            PureDP(1.1),
            math.inf,
        ),
        Awkward("answers", _randomized_response(1.0), PureDP(1.0), 1.0),
        Awkward("two bumps", _mixture(40.0), GDP(5.1), 5.0),
        Awkward("truncated normal", _truncated(), PureDP(1.0), math.inf),
        Awkward(
            "uniform",
            _additive_noise(lambda n, rng: rng.random(n), uniform, 4.0),
            ApproxDP(0.5, 0.26),
            0.0,
        ),
        Awkward(
            "beta with a pole",
            _additive_noise(lambda n, rng: rng.beta(0.3, 2.0, n), beta(0.3, 2.0), 50.0),
            PureDP(3.0),
            math.inf,
        ),
        Awkward("radial noise in 3-D", _radial_noise(3), PureDP(1.0), 1.0),
        Awkward("radial noise in 6-D", _radial_noise(6), PureDP(1.0), 1.0),
        Awkward("skewed normal", _skewed(), PureDP(1.0), math.inf),
    ]


def _skewed() -> Law:
    """Return the skew-normal law 2 phi(x) Phi(3 x), shifted by d / 2."""

    def draw(d: float, n: int, rng: np.random.Generator) -> FloatArray:
        z = rng.standard_normal((2, n))
        delta = 3 / math.sqrt(10)
        return np.asarray(d / 2 + delta * np.abs(z[0]) + math.sqrt(1 - delta**2) * z[1])

    return Law(
        draw,
        lambda y, d: math.log(2) + norm.logpdf(y[:, 0] - d / 2) + log_ndtr(3 * (y[:, 0] - d / 2)),
    )


def _contaminated(law: Law, share: float, other: Draw) -> Law:
    """Return the density of `law` with a sampler that draws a share of the runs from
    another law.
    """

    def draw(d: float, n: int, rng: np.random.Generator) -> FloatArray:
        y = np.asarray(law.draw(d, n, rng), dtype=float).reshape(n, -1)
        replaced = rng.random(n) < share
        y[replaced] = np.asarray(other(d, n, rng), dtype=float).reshape(n, -1)[replaced]
        return y

    return Law(draw, law.density)


def _faulty_cases() -> list[Awkward]:
    """Return the cases whose density disagrees with the sampler."""

    def scaled(
        law: Any, draw: Callable[[int, np.random.Generator], FloatArray], factor: float
    ) -> Law:
        return Law(
            lambda d, n, rng: d + factor * draw(n, rng), lambda y, d: law.logpdf(y[:, 0] - d)
        )

    plain = _additive_noise(lambda n, rng: rng.standard_normal(n), norm)
    wrong = [
        (
            "scale .97 of laplace",
            scaled(laplace, lambda n, rng: rng.laplace(size=n), 0.97),
            PureDP(1.0),
        ),
        (
            "scale 1.03 of normal",
            scaled(norm, lambda n, rng: rng.standard_normal(n), 1.03),
            GDP(1.0),
        ),
        (
            "student 5 for normal",
            scaled(norm, lambda n, rng: rng.standard_t(5, n) / math.sqrt(5 / 3), 1.0),
            GDP(1.0),
        ),
        (
            "logistic for normal",
            scaled(norm, lambda n, rng: rng.logistic(size=n) * math.sqrt(3) / math.pi, 1.0),
            GDP(1.0),
        ),
        (
            "1 % without noise",
            _contaminated(plain, 0.01, lambda d, n, rng: np.full(n, d)),
            GDP(1.0),
        ),
        (
            "1 % with 1e-4 of the noise",
            _contaminated(plain, 0.01, lambda d, n, rng: d + 1e-4 * rng.standard_normal(n)),
            GDP(1.0),
        ),
        (
            "1 % with three times the noise",
            _contaminated(plain, 0.01, lambda d, n, rng: d + 3 * rng.standard_normal(n)),
            GDP(1.0),
        ),
        (
            "1 % far out",
            _contaminated(plain, 0.01, lambda d, n, rng: d + 6 + 0.1 * rng.standard_normal(n)),
            GDP(1.0),
        ),
        (
            "1 % at 0.7",
            _contaminated(plain, 0.01, lambda d, n, rng: 0.7 + 0.01 * rng.standard_normal(n)),
            GDP(1.0),
        ),
        ("answers at 1.1 for 1", _randomized_response(1.0, sampled=1.1), PureDP(1.0)),
        (
            "shifted by .03",
            Law(lambda d, n, rng: d + 0.03 + rng.standard_normal(n), plain.density),
            GDP(1.0),
        ),
        (
            "integral 1.03",
            Law(plain.draw, lambda y, d: plain.density(y, d) + math.log(1.03)),
            GDP(1.0),
        ),
        (
            "integral .97",
            Law(plain.draw, lambda y, d: plain.density(y, d) + math.log(0.97)),
            GDP(1.0),
        ),
        (
            "rounded outputs",
            Law(lambda d, n, rng: np.round(d + rng.standard_normal(n), 2), plain.density),
            GDP(1.0),
        ),
    ]
    return [
        Awkward(name, law, claim, math.inf, right=False, trials=100_000)
        for name, law, claim in wrong
    ]
