"""Options of an audit: the validated request, and what the first steps of the audit determine; and
its budget: shares of its runs for probes, low bits, pilot, training and test, and of its error
probability for interim looks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

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

PROBE = 64  # rounds in a probe's chunk; a probe runs about four chunks
PILOT_SHARE = 0.2
SCREEN_SHARE = 0.25  # share of the runs for the first looks at more pairs than the pilot tries
# minimum number of runs per pair of an audit that looks for more than gross violations
MIN_RUNS_PER_PAIR = 1000
SHORT_PAIRS = 3  # number of pairs that audits with few runs try
TRAIN_VALUES = 2**23  # maximum number of values stored for training
MAX_CHUNK_ROUNDS = 2**19  # maximum number of rounds in a chunk
LOOKS = (1 / 128, 1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)
# share of alpha for all looks but the last together: early looks detect gross violations only
EARLY_ALPHA = 0.05
# share of alpha for each look before the last, and for one look before the test: at the end of the
# first event's test if the budget is small, otherwise during the training (`pilot.EarlyLook`)
LOOK_ALPHA_SHARE = EARLY_ALPHA / len(LOOKS)
LOOK_SHARES = {look: LOOK_ALPHA_SHARE if look < 1 else 1 - EARLY_ALPHA for look in LOOKS}
# rounds that train the event of the look during the training, and rounds that test it
EARLY_LOOK_ROUNDS = (2**12, 2**13)
TRAIN_ROUNDS = 2**18  # maximum number of rounds that train an event
# budget up to which the first test also trains a better event; above it, only if the event is rare
MAX_STAGED_BUDGET = 100_000
MIN_FIRST_TEST_ROUNDS = 500  # minimum number of rounds in such a first test
# number of guesses in the training outputs below which more outputs improve the choice of an event
RARE_GUESSES = 400.0


def tried_pairs(planned: int) -> int:
    """Return the maximum number of pairs that get a probe and pilots; the others have a look of few
    runs only.
    """
    # each of more pairs gets 2000 runs, of which its probe and pilots take about 500
    return max(min(SHORT_PAIRS, planned // MIN_RUNS_PER_PAIR), planned // 2000)


def probe_chunk(planned: int, pairs: int) -> int:
    """Return the number of rounds in a probe's chunk; about four such chunks are run on
    each pair.
    """
    if planned < MIN_RUNS_PER_PAIR:
        return 8  # only a time budget allows for so few runs
    # smaller chunks where the probes would take more than 5 % of the runs
    return max(16, min(PROBE, int(0.05 / 4 * planned / pairs)))


def bit_rounds(budget: int, pairs: int) -> int:
    """Return the number of rounds of the low-bit audit, which runs only if outputs have
    low bits.
    """
    # leaks in the low bits are large: more rounds would only slow the audit
    return min(int(0.1 * budget), 2**16 * min(pairs, 4))


def training_rounds(budget: int, width: int, *, easy: bool = False) -> int:
    """Return the number of rounds that train an event, out of the budget; `easy` for the first of
    two if few outputs teach their order.
    """
    share = (
        0.2
        if easy
        # falls with the fourth root of a large budget: more data improve tests more than events
        else 0.3 * min(1.0, 20_000 / max(budget, 1)) ** 0.25
    )
    return int(min(share * budget, TRAIN_ROUNDS, TRAIN_VALUES // width))


def is_staged(budget: int, width: int) -> bool:
    """Return whether an audit with this budget tests two events, unless its claim bounds a Renyi
    divergence.
    """
    return budget <= MAX_STAGED_BUDGET and training_rounds(budget, width) >= MIN_FIRST_TEST_ROUNDS


def chunk_size(rounds: int, width: int) -> int:
    """Return the number of rounds in a chunk, a power of two.

    Chunks are small enough that a slow mechanism soon finishes some, and that the outputs of a
    chunk take a few megabytes. The number does not depend on the speed of the mechanism, which
    determines only the number of chunks per task (`Pace`).
    """
    # about 512 chunks in a stage
    wanted = 2 ** int(math.log2(max(rounds / 512, 128)))
    return int(min(wanted, MAX_CHUNK_ROUNDS, max(256, 2 ** int(math.log2(2**21 / max(width, 1))))))


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
