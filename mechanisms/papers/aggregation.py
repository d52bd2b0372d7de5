"""Mirror averaging of the private estimates of several organizations, as one distributed protocol.

Minami et al., equation (10): beta = sum_m a_m beta_m, a_m = (1/n0) sum_t softmax_m(-(1/tau)
sum_{i<=t} (y_i - beta_m.x_i)^2), over records that are not protected. Claims MN-04 and MN-05.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dpwitness.core import InvalidArgument, LabelledVectors, Pair, PureDP, Truth
from dpwitness.core.protocols import FloatArray, available_if, one_law
from dpwitness.core.values.validation import require, require_type
from dpwitness.mechanisms.papers.ridge import PrivateRidge
from dpwitness.mechanisms.textbook.categorical import log_softmax, output_rows
from dpwitness.mechanisms.textbook.zoo import PaperSpecimen


@dataclass(frozen=True, slots=True, eq=False)
class Organisations:
    """Dataset with the private records of M organizations; neighbors replace one record of one
    organization.

    Parameters
    ----------
    groups : tuple of LabelledVectors
        The records of each organization, all of the same dimension.
    """

    groups: tuple[LabelledVectors, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups", tuple(self.groups))
        if not self.groups:
            raise InvalidArgument(
                "Organisations: groups must hold at least one organisation, got none"
            )
        for group in self.groups:
            if not isinstance(group, LabelledVectors):
                raise InvalidArgument(
                    f"Organisations: groups must be LabelledVectors, got {type(group).__name__}"
                )
        if len({group.dimension for group in self.groups}) > 1:
            raise InvalidArgument(
                "Organisations: groups must all have the same dimension, got "
                f"{[group.dimension for group in self.groups]}"
            )

    @property
    def dimension(self) -> int:
        """Return the dimension p."""
        return self.groups[0].dimension

    @property
    def sizes(self) -> list[int]:
        """Return the public number of records of each organization."""
        return [group.n for group in self.groups]

    def records(self) -> list[Any]:
        """Return every stored record with the index of its organization."""
        return [(m, *record) for m, group in enumerate(self.groups) for record in group.records()]

    def counts(self) -> Counter[tuple[int, Any]]:
        """Return the multiplicity of each record in each organization, for the neighbor check."""
        return Counter(
            {
                (m, key): count
                for m, group in enumerate(self.groups)
                for key, count in group.counts().items()
            }
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Organisations) and self.counts() == other.counts()

    __hash__ = None  # type: ignore[assignment]


@one_law
@dataclass(frozen=True, slots=True, eq=False)
class MirrorAveraging:
    """Mirror averaging of private ridge estimates.

    Each organization releases a private ridge estimate. The center averages the estimates by their
    fit to its own, unprotected records.

    Parameters
    ----------
    ridge : PrivateRidge
        Mechanism that every organization runs on its n_m records (the same n_m for all).
    organisations : int
        M.
    public_x, public_y : (n0, p) and (n0,) arrays
        D^0, in the order of the sum. No privacy is claimed for D^0, so that it is a parameter and
        not part of the dataset.
    temperature : float
        tau. The oracle inequality of the paper requires tau >= 2 sigma^2 + 8 B^2.
    index : {"t", "t-1"}
        The weights of step t use records i <= t, as printed, or i <= t-1, as in the mirror
        averaging that the paper cites.
    clip : bool
        If true, each estimate is projected onto Theta before it is weighted and averaged. Otherwise
        the closed form (8) may leave Theta, where the oracle inequality of index "t-1" fails
        (MN-05).
    release : {"aggregate", "full"}
        The aggregate alone (p numbers), or all M estimates followed by the aggregate ((M + 1) p
        numbers).

    Notes
    -----
    There is no `domain`, since the pair search does not cover grouped records. Use `worst_pair` or
    pairs of `Organisations`.
    """

    ridge: PrivateRidge
    organisations: int
    public_x: FloatArray
    public_y: FloatArray
    temperature: float
    index: Literal["t", "t-1"] = "t"
    clip: bool = False
    release: Literal["aggregate", "full"] = "aggregate"

    def __post_init__(self) -> None:
        require(self).integer("organisations").positive("temperature").one_of(
            "index", ["t", "t-1"]
        ).one_of("clip", [False, True]).one_of("release", ["aggregate", "full"])
        require_type("ridge", self.ridge, PrivateRidge, "be a PrivateRidge", "MirrorAveraging")
        public = LabelledVectors(self.public_x, self.public_y)
        if public.dimension != self.ridge.dimension:
            raise InvalidArgument(
                "MirrorAveraging: public_x must have vectors of length "
                f"{self.ridge.dimension}, got {public.dimension}"
            )
        object.__setattr__(self, "public_x", public.x)
        object.__setattr__(self, "public_y", public.y)

    @property
    def claim(self) -> PureDP:
        """Return the claim of the ridge mechanism: epsilon-DP for every private record.

        Each record belongs to one organization, and the rest of the protocol is post-processing.
        """
        return self.ridge.claim

    @property
    def truth(self) -> Truth | None:
        """Return the true privacy loss of the ridge estimates, or None if it is unknown for this
        release.

        For the aggregate alone only an upper bound is known, that of the repaired ridge.
        """
        return self.ridge.truth if self.release == "full" or self.ridge.form == "repaired" else None

    def worst_pair(self, where: Literal["tail", "bulk"] = "tail") -> Pair:
        """Return the worst pair of the ridge mechanism in organization 0.

        All other organizations hold the common records of that pair.
        """
        inner = self.ridge.worst_pair(where)
        filler = LabelledVectors(inner.d0.x[-1:], inner.d0.y[-1:], [self.ridge.records])
        rest = (filler,) * (self.organisations - 1)
        return Pair(
            Organisations((inner.d0, *rest)),
            Organisations((inner.d1, *rest)),
            "replace-one",
            f"{inner.why}; organisation 0",
        )

    def sample(self, dataset: Organisations, size: int, rng: np.random.Generator) -> FloatArray:
        """Return aggregates, (size, p), or the estimates followed by their aggregate, (size, (M +
        1) p).
        """
        estimates = np.concatenate(
            [self.ridge.sample(group, size, rng) for group in self._validated_groups(dataset)],
            axis=1,
        )
        return (
            self.aggregate(estimates)
            if self.release == "aggregate"
            else np.hstack([estimates, self.aggregate(estimates)])
        )

    def aggregate(self, estimates: FloatArray) -> FloatArray:
        """Return equation (10) for each row of M estimates; (size, M p) becomes (size, p)."""
        projected = self._projected(estimates)
        shares = self._shares(projected)
        return np.asarray(np.einsum("im,imp->ip", shares, projected.reshape(*shares.shape, -1)))

    def weights(self, estimates: FloatArray) -> FloatArray:
        """Return the weights a_1, ..., a_M for each row of M estimates."""
        return self._shares(self._projected(estimates))

    @available_if(
        lambda self: (
            self.ridge.grid == 0
            and (self.release == "full" or (self.organisations == 1 and not self.clip))
        )
    )
    def log_density(self, outputs: FloatArray, dataset: Organisations) -> FloatArray:
        """Return the exact log-density of each row for ``release="full"``.

        The estimates are independent and determine the aggregate. Rows with an inconsistent
        aggregate have minus infinity. The aggregate alone has a closed-form density only if it is
        the unclipped estimate of one organization (M = 1). Otherwise the method does not exist.
        """
        groups = self._validated_groups(dataset)
        p = self.ridge.dimension
        if self.release == "aggregate":
            return self.ridge.log_density(outputs, groups[0])
        rows = output_rows(outputs, (self.organisations + 1) * p, "MirrorAveraging")
        total = sum(
            self.ridge.log_density(rows[:, m * p : (m + 1) * p], group)
            for m, group in enumerate(groups)
        )
        expected = self.aggregate(rows[:, :-p])
        consistent = np.all(
            np.abs(rows[:, -p:] - expected) <= 1e-9 * (1 + np.abs(expected)), axis=1
        )
        return np.where(consistent, total, -np.inf)

    def factors(
        self, d0: Organisations, d1: Organisations
    ) -> list[tuple[PrivateRidge, LabelledVectors, LabelledVectors]]:
        """Return the M independent estimates, which determine the aggregate."""
        return [
            (self.ridge, a, b)
            for a, b in zip(self._validated_groups(d0), self._validated_groups(d1), strict=True)
        ]

    def _projected(self, estimates: FloatArray) -> FloatArray:
        """Return the estimates, projected onto Theta if `clip` is true."""
        rows = output_rows(estimates, self.organisations * self.ridge.dimension, "MirrorAveraging")
        if not self.clip:
            return rows
        parts = rows.reshape(len(rows), self.organisations, -1)
        norms = np.linalg.norm(parts, axis=2, keepdims=True)
        return np.ascontiguousarray(
            (parts * (self.ridge.radius / np.maximum(norms, self.ridge.radius))).reshape(rows.shape)
        )

    def _shares(self, projected: FloatArray) -> FloatArray:
        """Return the averaging weights for each row of estimates, (size, M): the averages over t of
        the softmax weights of the cumulated squared errors.
        """
        estimates = projected.reshape(len(projected), self.organisations, -1)
        errors, total = np.zeros(estimates.shape[:2]), np.zeros(estimates.shape[:2])
        for x, y in zip(self.public_x, self.public_y, strict=True):
            before = errors
            errors = errors + (y - estimates @ x) ** 2
            seen = errors if self.index == "t" else before
            total += np.exp(log_softmax(-seen / self.temperature))
        return total / len(self.public_y)

    def _validated_groups(self, dataset: Organisations) -> tuple[LabelledVectors, ...]:
        """Return the groups of the dataset after validation."""
        if not isinstance(dataset, Organisations):
            raise InvalidArgument(
                f"MirrorAveraging: dataset must be Organisations, got {type(dataset).__name__}"
            )
        if len(dataset.groups) != self.organisations:
            raise InvalidArgument(
                f"MirrorAveraging: dataset must hold {self.organisations} organisations, got "
                f"{len(dataset.groups)}"
            )
        return dataset.groups


def specimens() -> Iterator[tuple[str, PaperSpecimen]]:
    """Yield the names and specimens of the zoo."""
    for form in ("printed", "repaired"):
        ridge = PrivateRidge(1.0, 0.1, 1.0, 1.0, 2, 60, form=form)
        public = np.array([[0.6, 0.2], [-0.3, 0.8], [0.1, -0.5]])
        for release in ("aggregate", "full"):
            protocol = MirrorAveraging(ridge, 2, public, public @ [0.5, -0.2], 8.0, release=release)
            yield (
                f"aggregation-{release}-{form}",
                PaperSpecimen(
                    protocol,
                    (protocol.worst_pair("tail"), protocol.worst_pair("bulk")),
                    settled=form == "repaired",
                    trials=50_000,
                ),
            )
