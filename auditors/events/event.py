"""Base classes of guess rules (events), and the histogram of outputs along an event, for display:
counts on each dataset and the guess in each bin. It certifies nothing.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpwitness.auditors.events.outputs import Outputs
from dpwitness.core.protocols.mechanism import FloatArray
from dpwitness.core.values.json_codec import to_jsonable
from dpwitness.core.values.json_reader import Json

if TYPE_CHECKING:
    from dpwitness.auditors.events.kernels import Kernel

Guesses = NDArray[np.int8]

# rounds from which a kernel is used: without a cache on disk, compilation takes one or two seconds
MIN_KERNEL_ROUNDS = 2**20


class Event(ABC):
    """Base class of guess rules."""

    kind: ClassVar[str]

    @abstractmethod
    def guess(self, outputs: Outputs) -> Guesses:
        """Return the guess for each output: +1 (D1), -1 (D0) or 0 (abstain)."""

    @property
    @abstractmethod
    def directions(self) -> int:
        """How many of the two guesses the rule can make: 1 or 2."""

    @abstractmethod
    def describe(self) -> str:
        """Return a one-line description of the rule for display."""

    def kernel(self, width: int, code: float) -> Kernel | None:
        """Return the compiled rule (see `kernels`) for outputs of `width` numbers and structure
        `code`; None if the rule has no kernel.
        """
        return None

    def count(self, outputs: Outputs, rounds: int = 0) -> tuple[int, int]:
        """Return the number of outputs on which D1 is guessed, and on which D0 is guessed.

        A compiled kernel counts if there are at least `MIN_KERNEL_ROUNDS` outputs, or the outputs
        belong to a test with at least `MIN_KERNEL_ROUNDS` rounds.
        """
        if (
            len(outputs)
            and max(len(outputs), rounds) >= MIN_KERNEL_ROUNDS
            and np.array_equal(outputs.codes, np.full(len(outputs), outputs.codes[0]))
        ):
            found = cached_kernel(self, outputs.values.shape[1], float(outputs.codes[0]))
            if found is not None:
                table = np.zeros(3, dtype=np.int64)
                found[0](*found[1], np.ascontiguousarray(outputs.values, dtype=np.float64), table)
                return int(table[1]), int(table[2])
        guesses = self.guess(outputs)
        return int(np.count_nonzero(guesses > 0)), int(np.count_nonzero(guesses < 0))

    def tabulate(self, outputs: Outputs, rounds: int = 0) -> NDArray[np.int64]:
        """Return the counts of the cells abstain, D1 and D0."""
        plus, minus = self.count(outputs, rounds)
        return np.array([len(outputs) - plus - minus, plus, minus], dtype=np.int64)

    @property
    def axis(self) -> str:
        """Label of the scalar on which the event sets thresholds; empty for an event that lists
        outputs.
        """
        return ""

    def position(self, outputs: Outputs) -> FloatArray:
        """Return each output's value of the scalar on which the event sets thresholds."""
        raise NotImplementedError(f"{type(self).__name__} sets no thresholds on a scalar")

    def cuts(self) -> FloatArray:
        """Return the thresholds on the scalar at which the guess changes."""
        raise NotImplementedError(f"{type(self).__name__} sets no thresholds on a scalar")

    def guess_at(self, places: FloatArray) -> Guesses:
        """Return the guess at given values of the scalar on which the event sets thresholds."""
        raise NotImplementedError(f"{type(self).__name__} sets no thresholds on a scalar")

    def listed(self) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """Return the names of the cells of an event without a scalar, and the guess in
        each cell.
        """
        return ("D1 is guessed", "D0 is guessed", "all others"), (1, -1, 0)

    def cell(self, outputs: Outputs) -> NDArray[np.intp]:
        """Return the index of each output's cell in `listed`."""
        return np.array([2, 0, 1])[self.guess(outputs)]

    def to_json(self) -> Json:
        """Return the rule in plain JSON types; `reading.read_event` is the inverse."""
        return {"kind": self.kind, "rule": to_jsonable(self)}


class ScalarEvent(Event):
    """Base class of the rules that guess by thresholds on one scalar."""

    def guess(self, outputs: Outputs) -> Guesses:
        return self.guess_at(self.position(outputs))


@dataclass(frozen=True, slots=True, eq=False)
class Restricted(Event):
    """A rule that guesses on a part of the outputs only: those of the structures `codes`, inside or
    outside of a mask.

    The mask consists of the outputs on which the rule `mask` guesses. If `side` is +1 or -1, only
    this dataset is guessed.
    """

    event: Event
    codes: FloatArray  # sorted
    mask: Event | None = None
    inside: bool = True
    side: int = 0

    kind: ClassVar[str] = "restricted"

    def guess(self, outputs: Outputs) -> Guesses:
        kept = np.isin(outputs.codes, self.codes)
        if self.mask is not None:
            kept &= (self.mask.guess(outputs) != 0) == self.inside
        guesses = self.event.guess(outputs)
        return np.where(
            kept & ((guesses == self.side) if self.side else True), guesses, np.int8(0)
        ).astype(np.int8)

    @property
    def directions(self) -> int:
        return 1 if self.side else self.event.directions

    def describe(self) -> str:
        only = f", only D{int(self.side > 0)} is guessed" if self.side else ""
        return f"{self.event.describe()} (on a part of the outputs{only})"


@lru_cache(maxsize=16)
def cached_kernel(event: Event, width: int, code: float) -> Kernel | None:
    """Return the event's kernel from a cache keyed by the identity of the event, so that tables are
    built once.
    """
    return event.kernel(width, code)


def count_directions(guesses: Any) -> int:
    """Return how many different guesses other than 0 these are, at least 1."""
    found = set(np.sign(guesses).tolist()) - {0}
    return max(1, len(found))


_BINS = 40
_TAIL_SHARE = 0.002  # share of the outputs in each of the outermost bins
_OVERFLOW = 1e300  # magnitude beyond which differences may overflow


@dataclass(frozen=True, slots=True, eq=False)
class EventHistogram:
    """Histogram of the scalar on which an event sets thresholds, or counts of the outputs that the
    event lists.
    """

    axis: str  # label of the scalar; empty if `names` describe the bins
    # edges of the bins. The first and the last bin hold everything beyond them; NaN is left out.
    # Empty if `names` describe the bins.
    edges: FloatArray
    names: tuple[str, ...]  # names of the bins if the event lists outputs; otherwise empty
    counts: FloatArray  # outputs on D1 and on D0; none of them trained the event
    # +1 where D1 is guessed, -1 where D0 is guessed, 0 where the event abstains
    guesses: FloatArray
    rounds: int  # number of outputs counted, on both datasets together

    def to_json(self) -> Json:
        return {
            "axis": self.axis,
            "edges": [float(edge) for edge in self.edges],
            "names": list(self.names),
            "d1": self.counts[0].astype(int).tolist(),
            "d0": self.counts[1].astype(int).tolist(),
            "guesses": self.guesses.astype(int).tolist(),
            "rounds": self.rounds,
        }


def picture(event: Event, sides: tuple[Outputs, Outputs]) -> EventHistogram | None:
    """Return the histogram of `event` over outputs on D1 and on D0; None if there are no finite
    values.
    """
    rounds = sum(len(side) for side in sides)
    if not rounds:
        return None
    if not event.axis:
        names, guesses = event.listed()
        counts = np.array(
            [np.bincount(event.cell(side), minlength=len(names)) for side in sides], dtype=float
        )
        return EventHistogram(
            "", np.empty(0), names, counts, np.array(guesses, dtype=float), rounds
        )
    lines = [event.position(side) for side in sides]
    finite = np.concatenate([line[np.abs(line) < _OVERFLOW] for line in lines])
    if not len(finite):
        return None
    edges = _edges(finite, event.cuts())
    inside = [np.clip(line[~np.isnan(line)], edges[0], edges[-1]) for line in lines]
    counts = np.array([np.histogram(line, edges)[0] for line in inside], dtype=float)
    return EventHistogram(
        event.axis,
        edges,
        (),
        counts,
        event.guess_at((edges[1:] + edges[:-1]) / 2).astype(float),
        rounds,
    )


def _edges(line: FloatArray, cuts: FloatArray) -> FloatArray:
    """Return bin edges of about equal width over all but the tails, including the event's
    thresholds where they are visible.
    """
    low, high = np.quantile(line, [_TAIL_SHARE, 1 - _TAIL_SHARE])
    cuts = np.unique(cuts[np.abs(cuts) < _OVERFLOW])
    # a threshold farther out would squeeze the visible bins
    visible = cuts[(cuts > low - (high - low)) & (cuts < high + (high - low))]
    low, high = min([low, *visible]), max([high, *visible])
    if not high > low:
        low, high = low - 0.5, high + 0.5
    width = (high - low) / _BINS
    uniform = np.linspace(low, high, _BINS + 1)
    kept_edges = uniform[
        [
            # an edge near a threshold of the event is replaced by the threshold
            not len(visible) or np.abs(visible - edge).min() > 0.2 * width
            for edge in uniform
        ]
    ]
    outer_edges = [
        low - width if len(visible) and low in visible else low,
        high + width if len(visible) and high in visible else high,
    ]
    edges = np.unique(np.concatenate([kept_edges, visible, outer_edges]))
    distinct: FloatArray = edges[np.append(True, np.diff(edges) > 1e-12 * max(abs(low), abs(high)))]
    return distinct


def describe_event_in_words(event: str) -> str:
    """Return the intervals of an event in words.

    Examples
    --------
    >>> describe_event_in_words("D0 on (-inf, -0.16]; D1 on (1.15, inf]")
    'guess D0 if the output is at most -0.16; D1 if the output is above 1.15'
    >>> describe_event_in_words("output 2: D1 on (0.5, 1]")
    'output 2: guess D1 if it is above 0.5 and at most 1'
    """
    head, found, rest = (
        event.rpartition(": ") if re.match(r"output \d+: ", event) else ("", "", event)
    )
    subject = "it" if head else "the output"

    def interval(match: re.Match[str]) -> str:
        low, high = match["low"], match["high"]
        conditions = ([] if low == "-inf" else [f"above {low}"]) + (
            [] if high == "inf" else [f"at most {high}"]
        )
        return f"{match['side']} if {subject} is {' and '.join(conditions) or 'a number'}"

    score = re.match(r"(score over \d+ features[^:]*): (?=D[01] (?:above|below) )", rest)
    if score:
        head, found, rest = (
            f"by a {score[1]}",
            ": ",
            re.sub(r"(D[01]) (above|below)", r"\1 if it is \2", rest[score.end() :]),
        )
    description = re.sub(
        r"(?P<side>D[01]) on \((?P<low>[^,()]+), (?P<high>[^\]]+)\]", interval, rest
    )
    return f"{head}{found}{'guess ' if description[:2] in ('D0', 'D1') else ''}{description}"
