"""Chains of transformations: composition of steps, and audits of random compositions against the
composed stability map.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dpwitness.auditors.functions.stability.audit import audit_stability
from dpwitness.auditors.functions.stability.inputs.spaces import InputSpace
from dpwitness.auditors.functions.stability.metrics import metric_named
from dpwitness.auditors.functions.stability.result import StabilityResult
from dpwitness.core.protocols.mechanism import name_of
from dpwitness.core.values.validation import (
    InvalidArgument,
    require_callable,
    require_integer,
    require_positive,
    require_type,
    short_repr,
)

_LEAST_SECONDS = 0.05  # shortest audit of a chain
_TRIES = 50  # draws of a chain, of which repeated ones are dropped, per requested chain


@dataclass(frozen=True)
class Step:
    """A transformation with its stability map, its spaces and its metrics, as a link of chains.

    Parameters
    ----------
    function : callable
        Deterministic ``f(dataset)``.
    stability_map : callable
        ``map(d_in)``, the claimed bound on the distance of the outputs.
    input_space : InputSpace
        Set of the inputs.
    input_metric, output_metric : str
        Metrics, as in `audit_stability`.
    output_space : InputSpace, optional
        Set that contains all outputs. A step without it ends a chain.
    name : str, optional
        Name of the step in reports.

    Raises
    ------
    InvalidArgument
        If an argument is invalid.
    """

    function: Callable[[Any], Any]
    stability_map: Callable[[Any], Any]
    input_space: InputSpace
    input_metric: str
    output_metric: str
    output_space: InputSpace | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        require_callable("function", self.function, "Step")
        require_callable("stability_map", self.stability_map, "Step")
        require_type("input_space", self.input_space, InputSpace, "be an InputSpace", "Step")
        require_type(
            "output_space", self.output_space, InputSpace, "be an InputSpace", "Step", optional=True
        )
        require_type("name", self.name, str, "be a text", "Step", optional=True)
        for key in ("input_metric", "output_metric"):
            metric_named(getattr(self, key), key, "Step")

    @property
    def label(self) -> str:
        """Name of the step, or else of its function."""
        return self.name or name_of(self.function)

    def precedes(self, other: Step) -> bool:
        """Return whether `other` can follow: it takes all outputs of this step, under the same
        metric.
        """
        return (
            self.output_metric == other.input_metric
            and self.output_space is not None
            and self.output_space.within(other.input_space)
        )

    def then(self, other: Step) -> Step:
        """Return the composition of this step and `other`, whose map is the composition of the
        maps.

        Raises
        ------
        InvalidArgument
            If `other` cannot follow.
        """
        if not self.precedes(other):
            ends = [
                f"{step.label} has {metric} on {space and space.to_json()}"
                for step, metric, space in self._joint(other)
            ]
            raise InvalidArgument(
                f"Step: {other.label} must take the outputs of {self.label}: {'; '.join(ends)}"
            )
        first, second = self.function, other.function
        first_map, second_map = self.stability_map, other.stability_map
        return Step(
            lambda dataset: second(first(dataset)),
            lambda d_in: second_map(first_map(d_in)),
            self.input_space,
            self.input_metric,
            other.output_metric,
            other.output_space,
            f"{self.label} >> {other.label}",
        )

    def _joint(self, other: Step) -> Iterator[tuple[Step, str, InputSpace | None]]:
        yield self, self.output_metric, self.output_space
        yield other, other.input_metric, other.input_space


def random_chains(steps: Sequence[Step], count: int, length: int, seed: int) -> list[Step]:
    """Return up to `count` different random compositions of at least two and at most `length`
    steps.
    """
    rng, found = random.Random(seed), dict[tuple[int, ...], Step]()
    for _ in range(_TRIES * count):
        if len(found) == count:
            break
        at = rng.randrange(len(steps))
        chain, places = steps[at], [at]
        for _ in range(rng.randint(1, length - 1)):
            following = [i for i, step in enumerate(steps) if chain.precedes(step)]
            if not following:
                break
            at = rng.choice(following)
            chain = chain.then(steps[at])
            places.append(at)
        if len(places) > 1:
            found[tuple(places)] = chain
    return list(found.values())


def audit_chains(
    steps: Sequence[Step],
    *,
    count: int = 20,
    length: int = 4,
    d_in: Sequence[Any] = (1, 2, 3),
    seconds: float = 60.0,
    seed: int | None = None,
    visible_errors: bool = False,
) -> tuple[StabilityResult, ...]:
    """Audit random compositions of steps: the composed map against the distance of the composed
    outputs.

    Parameters
    ----------
    steps : sequence of Step
        Steps that may follow each other where metrics and spaces agree.
    count : int
        Largest number of chains.
    length : int
        Largest number of steps of a chain, at least 2.
    d_in, visible_errors
        As in `audit_stability`.
    seconds : float
        Time limit of all audits together.
    seed : int, optional
        Seed of the compositions and of the searches. Default: 0.

    Returns
    -------
    tuple of StabilityResult
        One result for each chain.

    Raises
    ------
    InvalidArgument
        If an argument is invalid, or no two steps can follow each other.
    """
    if (
        not isinstance(steps, Sequence)
        or not steps
        or not all(isinstance(step, Step) for step in steps)
    ):
        raise InvalidArgument(
            f"audit_chains: steps must be a list of Steps, got {short_repr(steps)}"
        )
    count = require_integer("count", count, "audit_chains", least=1, most=10**6)
    length = require_integer("length", length, "audit_chains", least=2, most=100)
    require_positive("seconds", seconds, "audit_chains")
    used_seed = 0 if seed is None else require_integer("seed", seed, "audit_chains", least=0)
    chains = random_chains(steps, count, length, used_seed)
    if not chains:
        raise InvalidArgument(
            "audit_chains: steps must contain two that can follow each other: metrics and "
            "spaces have to agree"
        )
    each = max(_LEAST_SECONDS, seconds / len(chains))
    return tuple(
        audit_stability(
            chain.function,
            chain.stability_map,
            chain.input_space,
            chain.input_metric,
            chain.output_metric,
            d_in=d_in,
            seconds=each,
            seed=used_seed,
            name=chain.label,
            visible_errors=visible_errors,
        )
        for chain in chains
    )
