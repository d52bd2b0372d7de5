"""Options of an audit: the validated request, and what the first steps of the audit determine."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from dpwitness.auditors.audit.budget import PROBE
from dpwitness.auditors.events.scores import Score
from dpwitness.core.claims import Claim
from dpwitness.core.domains import Domain
from dpwitness.core.protocols.mechanism import FloatArray, name_of
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import (
    InvalidArgument,
    require_integer,
    require_numbers,
    require_positive,
    require_probability,
    require_run_options,
    require_type,
    short_repr,
)
from dpwitness.mechanisms.wrappers.programs.target import require_attributes

Progress = Callable[[int, int], None]

# violation that a sequential audit looks for by default, as a multiple of the claim's parameter
FIND = 1.1


@dataclass(frozen=True, slots=True, eq=False)
class AuditOptions:
    """Options of an audit, see `audit`. Stages replace options that they determine: `trials`,
    `scores`, `probe`, `width`, `claim`.
    """

    name: str
    claim: Claim
    mechanism: Any
    trials: int
    confidence: float
    seed: int
    executor: Executor | None
    time_limit: float
    progress: Progress | None
    target: Json | None
    near: FloatArray | None
    stop: str = "never"
    bits: bool = False  # whether low bits are audited
    # of a sequential audit: the smallest violation that it looks for, as a multiple of the claim
    find: float | None = None
    seconds: float | None = None
    clock: str = "wall"  # of `clocks.CLOCKS`: what `seconds` counts
    announce: Callable[[str], None] | None = None
    searched: Domain | None = None  # domain from which the pairs were taken
    scores: tuple[Score, ...] = ()  # usable scores
    probe: int = PROBE  # rounds in the chunk of each probe
    width: int = 1  # number of columns of the outputs
    # of the numbers of the tested pair from D0 to D1 under the same noise, as a traced run shows
    shift: FloatArray | None = None
    trace: bool = False  # whether traced runs order the pairs and explain the verdict
    # whether a violation is followed by separate tests of exceptions, repeated values and other
    # outputs
    causes: bool = False

    @property
    def alpha(self) -> float:
        """Error probability of each of the two verdicts."""
        return 1 - self.confidence

    @property
    def seeded(self) -> bool:
        """Whether the mechanism takes its randomness from a seed."""
        return bool(getattr(self.mechanism, "seeded", True))

    @property
    def score_columns(self) -> int:
        """Number of score columns, which come before the outputs' own columns."""
        return sum(len(score.keys) for score in self.scores)


def validated_options(
    mechanism: Any,
    claim: Claim,
    trials: int,
    confidence: float,
    seed: int,
    executor: Executor | None,
    name: str | None,
    time_limit: float = 300.0,
    progress: Progress | None = None,
    target: Json | None = None,
    near: ArrayLike | None = None,
) -> AuditOptions:
    """Return the options of an audit. Raise InvalidArgument if an argument is invalid."""
    from dpwitness.auditors.workers.loading import describe_target

    if not callable(getattr(mechanism, "sample", mechanism)) or isinstance(mechanism, type):
        raise InvalidArgument(
            "mechanism must be callable or have a method sample(dataset, size, rng), got "
            f"{short_repr(mechanism)}"
        )
    require_attributes(mechanism)
    trials = require_integer("trials", trials, "audit", least=1000, most=10**12)
    require_probability("confidence", confidence, "audit")
    seed = require_integer("seed", seed, "audit", least=0)
    if require_positive("time_limit", time_limit, "audit") > 1e9:
        raise InvalidArgument(f"audit: time_limit must be at most 1e9 seconds, got {time_limit!r}")
    require_run_options(executor, progress, name, "audit")
    require_type("target", target, dict, "be a dict", "audit", optional=True)
    point = None if near is None else require_numbers("near", near, "audit").ravel()
    name, target, limit = (
        name or name_of(mechanism),
        target or describe_target(mechanism),
        float(time_limit),
    )
    return AuditOptions(
        name, claim, mechanism, trials, confidence, seed, executor, limit, progress, target, point
    )


def require_find(find: float | None, sequential: bool, extend_to: int | None) -> float | None:
    """Return the smallest violation that a sequential audit looks for; None for a fixed plan. Raise
    InvalidArgument if it is invalid.
    """
    if not sequential:
        if find is not None:
            raise InvalidArgument(
                f"audit: find={short_repr(find)} is for sequential audits: add "
                "sequential=True, or leave it out"
            )
        return None
    if extend_to is not None:
        raise InvalidArgument(
            f"audit: extend_to={extend_to} is for audits with a fixed plan: call a "
            "sequential audit again with its store"
        )
    if require_positive("find", FIND if find is None else find, "audit") <= 1:
        raise InvalidArgument(
            f"audit: find must be above 1, a multiple of the claim's parameter, got {find!r}"
        )
    return FIND if find is None else float(find)
