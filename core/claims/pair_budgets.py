"""Claims whose budget depends on the pair of datasets: on their distance, on the coordinates that
differ, or on the size of a group.

The method `on` returns the plain notion for a pair, which audits test and results name. Without a
pair, the claim behaves as the one for the nearest neighbors.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from numpy.typing import ArrayLike

from dpwitness.core.claims.claim import Claim, FloatArray, exact_claim, parse_claim, parse_numbers
from dpwitness.core.claims.notions import PureDP
from dpwitness.core.datasets.relations import NORMS, distance_of, steps_between
from dpwitness.core.values.validation import (
    InvalidArgument,
    number_from_text,
    require,
    require_integer,
    require_positive,
    require_type,
    short_repr,
)


class PairClaim(Claim):
    """Claim whose privacy notion depends on the pair of datasets. Without a pair, all methods use
    the notion `nominal`.
    """

    symbol: ClassVar[str] = "epsilon"
    bounds_epsilon: ClassVar[bool] = True

    @property
    @abstractmethod
    def nominal(self) -> Claim:
        """Notion that is claimed if no pair is known."""

    @property
    def parameter(self) -> float:
        return self.nominal.parameter

    def with_parameter(self, value: float) -> Claim:
        return self.nominal.with_parameter(value)

    def tradeoff(self, fpr: ArrayLike) -> FloatArray:
        return self.nominal.tradeoff(fpr)

    def parameter_at(self, fpr: ArrayLike, tpr: ArrayLike) -> FloatArray:
        return self.nominal.parameter_at(fpr, tpr)

    def delta(self, epsilon: ArrayLike) -> FloatArray:
        return self.nominal.delta(epsilon)

    @property
    def at_delta(self) -> Claim:
        return self.nominal.at_delta

    def for_canaries(self, owner: str) -> Claim:
        """Return the claim that canaries test: the notion without a pair, about nearest
        neighbors.
        """
        return self.on(None).for_canaries(owner)

    def coarse(self) -> Claim:
        return self.nominal.coarse()

    def orders_among(self, orders: Sequence[float]) -> Sequence[float]:
        return self.nominal.orders_among(orders)

    def divergence_at(self, order: float) -> float:
        return self.nominal.divergence_at(order)


@dataclass(frozen=True, slots=True)
class MetricDP(PairClaim):
    """Metric privacy: P(S) <= e^(epsilon d(D0, D1)) Q(S) for every event S and any distance d of
    the two datasets.

    Chatzikokolakis, Andres, Bordenabe and Palamidessi (2013), "Broadening the scope of differential
    privacy using metrics".

    Parameters
    ----------
    epsilon : float
        Budget per unit of distance. Positive, finite.
    distance : float or {"l1", "l2", "linf"}, optional
        Distance of the two datasets, or the norm by which the distance of two vectors is computed.
        Default: the norm of the pair's relation, otherwise l1.

    Raises
    ------
    InvalidArgument
        If a number is not positive and finite, or the norm is unknown.

    Examples
    --------
    >>> from dpwitness.mechanisms import Pair
    >>> str(MetricDP(0.5).on(Pair([0.0, 0.0], [0.5, 0.5], relation="l1")))
    'pure:0.5'
    >>> str(MetricDP(0.5, distance=3).on(None))
    'pure:1.5'
    """

    epsilon: float
    distance: float | str | None = None

    form: ClassVar[str] = "metric:EPSILON[,DISTANCE]"
    notion: ClassVar[str] = "metric privacy"

    def __post_init__(self) -> None:
        require(self).positive("epsilon")
        if isinstance(self.distance, str):
            require(self).one_of("distance", list(NORMS))
        elif self.distance is not None:
            require(self).positive("distance")
            require_positive("epsilon times distance", self.epsilon * self.distance, "MetricDP")

    @classmethod
    def parse(cls, text: str) -> MetricDP:
        epsilon, _, distance = text.partition(",")
        try:
            number: float | str | None = number_from_text(distance) if distance else None
        except ValueError:
            number = distance
        return MetricDP(number_from_text(epsilon), number)

    @property
    def nominal(self) -> PureDP:
        return PureDP(
            self.epsilon
            * (1.0 if self.distance is None or isinstance(self.distance, str) else self.distance)
        )

    @property
    def numbers(self) -> tuple[float, ...]:
        return (
            (self.epsilon, float(self.distance))
            if isinstance(self.distance, int | float)
            else (self.epsilon,)
        )

    def of(self, numbers: Sequence[float]) -> MetricDP:
        epsilon, *distance = numbers
        return MetricDP(epsilon, distance[0] if distance else self.distance)

    def on(self, pair: Any) -> Claim:
        if pair is None or isinstance(self.distance, int | float):
            return self.nominal
        norm = self.distance or (pair.relation if pair.relation in NORMS else "l1")
        found = distance_of(pair.d0, pair.d1, norm)
        if found is None:
            raise InvalidArgument(
                f"{self}: distance must be given unless the datasets are vectors of one "
                "length: metric:EPSILON,DISTANCE"
            )
        return PureDP(_positive_budget(self, self.epsilon * found))

    @property
    def spelled(self) -> str:
        return f"metric:{self.epsilon!r}" + ("" if self.distance is None else f",{self.distance}")

    def __str__(self) -> str:
        distance_text = (
            f"{self.distance:g}" if isinstance(self.distance, int | float) else self.distance
        )
        return f"metric:{self.epsilon:g}{f',{distance_text}' if distance_text else ''}"


@dataclass(frozen=True, slots=True)
class CoordinateDP(PairClaim):
    """Per-coordinate budgets: epsilon_i for vectors that differ in coordinate i only; for several
    coordinates, the sum of theirs.

    The sum is not an additional promise: the sum follows from changing one coordinate after the
    other. Personalized privacy (Jorgensen, Yu and Cormode 2015) is the same with people instead of
    coordinates.

    Parameters
    ----------
    epsilons : tuple of float
        One budget per coordinate of the datasets, which are vectors. Positive, finite.

    Raises
    ------
    InvalidArgument
        If there are no budgets, or a budget or their sum is not positive and finite.

    Examples
    --------
    >>> from dpwitness.mechanisms import Pair
    >>> print(CoordinateDP((0.5, 1.0, 2.0)).on(Pair([0.0, 0.0, 0.0], [1.0, 0.0, -1.0],
    ...     relation="linf")))
    pure:2.5
    """

    epsilons: tuple[float, ...]

    form: ClassVar[str] = "percoordinate:EPSILON,..."
    notion: ClassVar[str] = "pure differential privacy with a budget for each coordinate"

    def __post_init__(self) -> None:
        require_type(
            "epsilons", self.epsilons, (tuple, list), "be a tuple of numbers", "CoordinateDP"
        )
        found = tuple(require_positive("epsilon", value, "CoordinateDP") for value in self.epsilons)
        if not found:
            raise InvalidArgument("CoordinateDP: epsilons must hold at least one number, got none")
        require_positive("sum of epsilons", sum(found), "CoordinateDP")
        object.__setattr__(self, "epsilons", found)

    @classmethod
    def parse(cls, text: str) -> CoordinateDP:
        return CoordinateDP(tuple(parse_numbers(text)))

    @property
    def nominal(self) -> PureDP:
        return PureDP(max(self.epsilons))

    @property
    def numbers(self) -> tuple[float, ...]:
        return self.epsilons

    def of(self, numbers: Sequence[float]) -> CoordinateDP:
        return CoordinateDP(tuple(numbers))

    def on(self, pair: Any) -> Claim:
        if pair is None:
            return self.nominal
        moved = steps_between(pair.d0, pair.d1)
        if moved is None or len(moved) != len(self.epsilons):
            given = "datasets that are not vectors" if moved is None else f"vectors of {len(moved)}"
            raise InvalidArgument(
                f"{self}: datasets must be vectors of {len(self.epsilons)} numbers, one for "
                f"each budget, got {given}"
            )
        spent = math.fsum(
            epsilon for epsilon, is_moved in zip(self.epsilons, moved, strict=True) if is_moved
        )
        return PureDP(_positive_budget(self, spent))

    def __str__(self) -> str:
        return f"percoordinate:{','.join(f'{epsilon:g}' for epsilon in self.epsilons)}"


@dataclass(frozen=True, slots=True)
class GroupDP(PairClaim):
    """Claim about groups of `size` records that follows from a claim about single records, by
    `Claim.group`.

    Reports show the claim about single records too.

    Parameters
    ----------
    size : int
        Largest number of records that may differ. The relation of the pair must allow this number.
    claim : Claim
        Claim about single records.

    Raises
    ------
    InvalidArgument
        If the claim depends on the pair, or implies nothing for groups of this size.

    Examples
    --------
    >>> print(GroupDP(3, PureDP(0.5)).on(None))
    pure:1.5
    """

    size: int
    claim: Claim

    form: ClassVar[str] = "group:SIZE,CLAIM"
    notion: ClassVar[str] = "differential privacy of groups"

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", require_integer("size", self.size, "GroupDP", most=10**6))
        require_type("claim", self.claim, Claim, "be a claim", "GroupDP")
        if isinstance(self.claim, PairClaim):
            raise InvalidArgument(
                f"GroupDP: claim must be about single records, such as pure:1, got "
                f"{short_repr(str(self.claim))}"
            )
        self.claim.group(self.size)  # raises if the claim implies nothing for this size

    @classmethod
    def parse(cls, text: str) -> GroupDP:
        size, _, rest = text.partition(",")
        return GroupDP(
            require_integer("size", number_from_text(size), "GroupDP", most=10**6),
            parse_claim(rest),
        )

    @classmethod
    def recall(cls, text: str, numbers: Sequence[float]) -> GroupDP:
        return GroupDP(int(numbers[0]), exact_claim(text.partition(",")[2], numbers[1:]))

    @property
    def nominal(self) -> Claim:
        return self.claim.group(self.size)

    @property
    def symbol(self) -> str:  # type: ignore[override]
        return self.nominal.symbol

    @property
    def bounds_epsilon(self) -> bool:  # type: ignore[override]
        return self.nominal.bounds_epsilon

    @property
    def bounds_renyi(self) -> bool:  # type: ignore[override]
        return self.nominal.bounds_renyi

    @property
    def delta_budget(self) -> float:  # type: ignore[override]
        return self.nominal.delta_budget

    @property
    def numbers(self) -> tuple[float, ...]:
        return float(self.size), *self.claim.numbers

    def of(self, numbers: Sequence[float]) -> GroupDP:
        return GroupDP(require_integer("size", numbers[0], "GroupDP"), self.claim.of(numbers[1:]))

    def on(self, pair: Any) -> Claim:
        return self.nominal

    @property
    def spelled(self) -> str:
        return f"group:{self.size},{self.claim.spelled}"

    def __str__(self) -> str:
        return f"group:{self.size},{self.claim}"


def _positive_budget(claim: Claim, epsilon: float) -> float:
    """Return the budget of a pair. Raise InvalidArgument for a budget of 0, which any difference of
    the laws would violate.
    """
    if not epsilon:
        raise InvalidArgument(
            f"{claim}: datasets must differ in value, the distance of these two is 0"
        )
    return epsilon


def resolved(claim: Claim, pair: Any) -> tuple[Claim, tuple[str, ...]]:
    """Return the claim on this pair, and the remarks of a result on the claim.

    Examples
    --------
    >>> resolved(GroupDP(2, PureDP(0.5)), None)
    (PureDP(epsilon=1.0), ('the claim group:2,pure:0.5 is pure:1 on this pair',))
    """
    found = claim.on(pair)
    remarks = () if found is claim else (f"the claim {claim} is {found} on this pair",)
    return found, (*remarks, *((found.remark,) if found.remark else ()))
