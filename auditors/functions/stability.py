"""Entry point of the stability audit: validate the request, run the search, confirm and shrink a
finding, build the result; and audits of random compositions of transformations."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, islice
from typing import Any

import numpy as np

from dpwitness.auditors.functions.stability_laws import STATE, find_law, is_kept
from dpwitness.auditors.functions.stability_metrics import (
    Exact,
    Incomparable,
    exact,
    metric_named,
    plain,
)
from dpwitness.auditors.functions.stability_neighbors import neighbors_of
from dpwitness.auditors.functions.stability_result import StabilityResult, concluded, format_number
from dpwitness.auditors.functions.stability_search import (
    Comparisons,
    same_outcome,
    search,
    smallest,
    walks,
)
from dpwitness.auditors.search.catalogue import require_settings
from dpwitness.auditors.witnesses.result import named
from dpwitness.auditors.workers.descriptions import constants_of
from dpwitness.core.domains import Domain
from dpwitness.core.domains.spaces import InputSpace
from dpwitness.core.protocols.mechanism import name_of
from dpwitness.core.values.validation import (
    InvalidArgument,
    error_text,
    require_callable,
    require_integer,
    require_positive,
    require_that,
    require_type,
    short_repr,
)

_OWNER = "audit_stability"


def audit_stability(
    transformation: Callable[[Any], Any],
    stability_map: Callable[[Any], Any],
    input_domain: InputSpace | Domain,
    input_metric: str,
    output_metric: str,
    *,
    d_in: Sequence[Any] = (1, 2, 3),
    seconds: float = 10.0,
    inputs: Sequence[Any] | None = None,
    seed: int | None = None,
    name: str | None = None,
    visible_errors: bool = False,
) -> StabilityResult:
    """Search for inputs at distance `d_in` whose outputs are further apart than
    ``stability_map(d_in)``.

    Distances are computed in exact arithmetic, so that a violation holds without a confidence
    level. A transformation that draws random numbers keeps the map if its outputs on two inputs can
    be drawn jointly within ``stability_map(d_in)``; that this is impossible is tested at confidence
    0.99.

    Parameters
    ----------
    transformation : callable
        ``f(dataset)``; an exception is an outcome. If outputs of one input differ from run to run,
        their laws are tested. An object may have ``apply_all(datasets)``, which returns a list of
        outputs and exceptions.
    stability_map : callable
        ``map(d_in)``, the claimed bound on the distance of the outputs. A `d_in` at which the map
        raises is skipped.
    input_domain : InputSpace or Domain
        Set of the inputs: a `VectorOf`, `ScalarOf` or `FrameOf`, or a domain of mechanisms.
    input_metric, output_metric : str
        ``symmetric``, ``insert-delete``, ``change-one``, ``hamming``, ``discrete``, ``absolute``,
        ``l1``, ``l2``, ``linf``, ``user:COLUMN``, ``by:COLUMN:symmetric``, ``per-group:METRIC``
        (the largest distance of a group), ``per-group-sum:METRIC`` or ``per-group-count:METRIC``.
    d_in : sequence of numbers
        Distances of inputs to audit.
    seconds : float
        Time limit of the search.
    inputs : sequence of datasets, optional
        Datasets of an InputSpace that the search tries first.
    seed : int, optional
        Seed of the search. Default: 0.
    name : str, optional
        Name of the transformation in the report.
    visible_errors : bool
        Whether an error on one of two neighbors only is a violation, because whoever sees the
        output sees errors. By default such a finding is INCONCLUSIVE.

    Returns
    -------
    StabilityResult
        Verdict, and the two inputs and outputs of the worst finding, shrunk.

    Raises
    ------
    InvalidArgument
        If an argument is invalid, a metric does not apply to the input domain, or the map gives no
        number at any `d_in`.

    Examples
    --------
    >>> from dpwitness.stability import Atom, VectorOf
    >>> space = VectorOf(Atom("i32", bounds=(0, 10)))
    >>> audit_stability(sum, lambda d: 10 * d, space, "symmetric", "absolute",
    ...     seconds=0.5).verdict.value
    'NOT_REFUTED'
    >>> found = audit_stability(sum, lambda d: 9 * d, space, "symmetric", "absolute", seconds=0.5)
    >>> found.first, found.second, found.outcomes
    ([], [10], (0, 10))
    """
    require_callable("stability_map", stability_map, _OWNER)
    used_seed, _ = require_settings(_OWNER, 0 if seed is None else seed, seconds, name=name)
    require_that(
        callable(transformation) or callable(getattr(transformation, "apply_all", None)),
        "transformation must be callable, or have apply_all(datasets), got "
        f"{short_repr(transformation)}",
        _OWNER,
    )
    measure_in, measure_out = (
        metric_named(value, key, _OWNER)
        for key, value in (("input_metric", input_metric), ("output_metric", output_metric))
    )
    require_that(
        isinstance(d_in, Sequence) and not isinstance(d_in, str) and d_in,
        f"d_in must be a list of positive numbers, got {short_repr(d_in)}",
        _OWNER,
    )
    for d in d_in:
        require_positive("d_in", d, _OWNER)
    bounds, skipped = map_values(stability_map, sorted(set(d_in)))
    near = neighbors_of(
        input_domain, measure_in, list(bounds), constants_of(transformation), _OWNER
    )
    given = _require_inputs(inputs, input_domain)
    begin = time.monotonic()
    tested = Comparisons(transformation, measure_out, bounds)
    # datasets that are run twice to see whether the transformation is deterministic
    probes = [group.datasets[-1] for group in islice(near.adversarial([]), 3)]
    randomized = not all(map(same_outcome, tested.run(probes), tested.run(probes)))
    problem, law = "", None
    found = None if randomized else search(tested, near, given, seconds, used_seed)
    if found is not None:
        if near.within(found.first, found.second) is None:
            raise AssertionError(
                f"{_OWNER}: a pair of the search is not within its distance: "
                f"{found.first!r}, {found.second!r}"
            )
        randomized = not tested.repeats(found)
    if found is not None and not randomized:
        # the outcomes of smaller inputs may be random, and look worse on one run
        smaller = smallest(tested, near, found, min(5.0, max(1.0, seconds / 2)))
        found = smaller if tested.repeats(smaller) else found
        problem = STATE if is_kept(found, tested) else ""
    if randomized:
        tested = Comparisons(transformation, measure_out, bounds)
        left = max(begin + seconds - time.monotonic(), seconds / 3)
        walked = walks(near, random.Random(used_seed), [])
        groups = chain.from_iterable(zip(near.adversarial(given), walked, strict=False))
        found, law, problem = find_law(tested, groups, left, np.random.default_rng(used_seed))
    return concluded(
        found,
        problem,
        tested,
        visible_errors,
        time.monotonic() - begin,
        {
            "name": name or name_of(transformation),
            "skipped": skipped,
            "input_metric": input_metric,
            "output_metric": output_metric,
            "space": input_domain.to_json() if isinstance(input_domain, InputSpace) else None,
            "seed": used_seed,
            "audited": tuple(bounds),
            "target": named(transformation),
            "subject": transformation,
            "stability_map": stability_map,
            "randomized": randomized,
            "law": law,
        },
    )


def _require_inputs(inputs: Any, input_domain: InputSpace | Domain) -> Sequence[Any]:
    """Return the given datasets, or none. Raise InvalidArgument unless they are a list of datasets
    of an InputSpace.
    """
    given = () if inputs is None else inputs
    require_that(
        isinstance(given, Sequence) and not isinstance(given, str),
        f"inputs must be a list of datasets, got {short_repr(inputs)}",
        _OWNER,
    )
    require_that(
        inputs is None or not isinstance(input_domain, Domain),
        "inputs must be left out for a Domain, whose pairs are catalogued: give an InputSpace",
        _OWNER,
    )
    for i, dataset in enumerate(given):
        require_that(
            input_domain.contains(dataset),
            f"inputs[{i}] must belong to the input domain, got {short_repr(dataset)}",
            _OWNER,
        )
    return given


def map_values(
    stability_map: Callable[[Any], Any], d_in: Sequence[Any]
) -> tuple[dict[Any, Exact], tuple[str, ...]]:
    """Return the finite values of a stability map, and why other distances are skipped. Raise
    InvalidArgument if there are no values.
    """
    bounds: dict[Any, Exact] = {}
    skipped = []
    for d in d_in:
        problem = ""
        try:
            bound = exact(plain(stability_map(d)))
            if bound < 0:
                problem = f"gives no distance: a distance is at least 0, got {bound}"
            elif bound == math.inf:
                problem = "is infinite and claims nothing"
            else:
                bounds[d] = Fraction(bound)
        except Incomparable as error:
            problem = f"gives no distance: {error}"
        except Exception as error:
            problem = f"raises {error_text(error)}"
        if problem:
            skipped.append(f"d_in = {format_number(d)}: the map {problem}")
    require_that(
        bounds,
        f"stability_map must give a finite distance at some d_in: {'; '.join(skipped)}",
        _OWNER,
    )
    return bounds, tuple(skipped)


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
                for step, metric, space in (
                    (self, self.output_metric, self.output_space),
                    (other, other.input_metric, other.input_space),
                )
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
    require_that(
        isinstance(steps, Sequence) and steps and all(isinstance(step, Step) for step in steps),
        f"steps must be a list of Steps, got {short_repr(steps)}",
        "audit_chains",
    )
    count = require_integer("count", count, "audit_chains", least=1, most=10**6)
    length = require_integer("length", length, "audit_chains", least=2, most=100)
    used_seed, _ = require_settings("audit_chains", 0 if seed is None else seed, seconds)
    rng, chains = random.Random(used_seed), dict[tuple[int, ...], Step]()
    # draws of a chain, of which repeated ones are dropped, per requested chain
    for _ in range(50 * count):
        if len(chains) == count:
            break
        places = [rng.randrange(len(steps))]
        chain = steps[places[0]]
        for _ in range(rng.randint(1, length - 1)):
            following = [i for i, step in enumerate(steps) if chain.precedes(step)]
            if not following:
                break
            places.append(rng.choice(following))
            chain = chain.then(steps[places[-1]])
        if len(places) > 1:
            chains[tuple(places)] = chain
    require_that(
        chains,
        "steps must contain two that can follow each other: metrics and spaces have to agree",
        "audit_chains",
    )
    return tuple(
        audit_stability(
            chain.function,
            chain.stability_map,
            chain.input_space,
            chain.input_metric,
            chain.output_metric,
            d_in=d_in,
            seconds=max(0.05, seconds / len(chains)),  # no audit of a chain is shorter
            seed=used_seed,
            name=chain.label,
            visible_errors=visible_errors,
        )
        for chain in chains.values()
    )
