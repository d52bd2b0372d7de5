"""Difficult densities that violate their claim by a known amount; a certifier that misses narrow,
rare or distant parts certifies them.

Each is a pair of laws on the line, a mixture of pieces with known masses. The truth is computed
from the masses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy.special import logsumexp

from dpwitness.core.claims import Claim
from dpwitness.core.protocols.mechanism import FloatArray
from dpwitness.mechanisms import GDP, ZCDP, ApproxDP, PureDP


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
