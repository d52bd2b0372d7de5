"""Base classes of guess rules (events); two rules that consist of others, `Restricted` and
`Binned`; the histogram of outputs along an event, for display, which certifies nothing; and the
certified Renyi divergence from cell counts: the test for RDP and zCDP claims, which one event alone
cannot refute well.

**Bound.** For any function h of the output and any order a > 1,

    D_a(P || Q)  >=  a/(a-1) ln E_P[e^((a-1) h)]  -  ln E_Q[e^(a h)],

with equality at h = ln p/q (Birrell et al. 2021). *Proof.* By Hoelder with exponents a and a/(a-1),
E_P[e^((a-1)h)] = E_Q[(p/q) e^((a-1)h)] <= E_Q[(p/q)^a]^(1/a) E_Q[e^(a h)]^((a-1)/a); take
logarithms, and ln E_Q[(p/q)^a] = (a-1) D_a. []

h is constant on K cells. The training data fix h and the order a. So the test needs only two means
of bounded variables, each from independent outputs: a lower limit of the first and an upper limit
of the second, at alpha/2 each. This needs far fewer rounds than K simultaneous limits.

**Limits.** X in [0, 1] has mean m, and the bet 0 <= b < 1 is fixed in advance. Then prod_i (1 + b
(X_i - m)) has mean 1. By Markov the product reaches 1/alpha with probability at most alpha
(Waudby-Smith and Ramdas 2024). The product decreases in m; the point where the product crosses
1/alpha is a lower limit. For an upper limit, bet on 1 - X. On K cells the product needs the counts
only. []
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpwitness.auditors.events.outputs import Outputs
from dpwitness.auditors.statistics.mean_limits import bracket
from dpwitness.core.claims import Claim
from dpwitness.core.protocols import FloatArray
from dpwitness.core.values.json_codec import to_jsonable
from dpwitness.core.values.json_reader import Json

Guesses = NDArray[np.int8]
# a function of compiled loops, as those of `kernels`, and its arguments
Kernel = tuple[Callable[..., None], tuple[Any, ...]]

# rounds from which a kernel is used: without a cache on disk, compilation takes one or two seconds
MIN_KERNEL_ROUNDS = 2**20


class Event(ABC):
    """Base class of guess rules."""

    kind: ClassVar[str]

    def guess(self, outputs: Outputs) -> Guesses:
        """Return the guess for each output: +1 (D1), -1 (D0) or 0 (abstain)."""
        return self.guess_at(self.position(outputs))

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
        """Return the rule in plain JSON types; `rule_reader.read_event` is the inverse."""
        return {"kind": self.kind, "rule": to_jsonable(self)}


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
    edges = _bin_edges(finite, event.cuts())
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


def _bin_edges(finite: FloatArray, cuts: FloatArray) -> FloatArray:
    """Return edges of about equal bins over all values but the tails, with the visible ones of the
    thresholds `cuts` among them.
    """
    low, high = np.quantile(finite, [_TAIL_SHARE, 1 - _TAIL_SHARE])
    cuts = np.unique(cuts[np.abs(cuts) < _OVERFLOW])
    # a threshold farther out would squeeze the visible bins
    visible = cuts[(cuts > low - (high - low)) & (cuts < high + (high - low))]
    low, high = min([low, *visible]), max([high, *visible])
    if not high > low:
        low, high = low - 0.5, high + 0.5
    width = (high - low) / _BINS
    uniform = np.linspace(low, high, _BINS + 1)
    # an edge near a threshold of the event is replaced by the threshold
    distance = np.abs(uniform[:, None] - visible).min(axis=1, initial=np.inf)
    kept_edges = uniform[distance > 0.2 * width]
    ends = low - width * (low in visible), high + width * (high in visible)
    edges = np.unique(np.concatenate([kept_edges, visible, ends]))
    apart = np.diff(edges) > 1e-12 * max(abs(low), abs(high))
    return np.asarray(edges[np.append(True, apart)])


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


# quantiles
CELL_QUANTILES = (
    0.002,
    0.01,
    0.03,
    0.08,
    0.16,
    0.25,
    0.35,
    0.45,
    0.55,
    0.65,
    0.75,
    0.84,
    0.92,
    0.97,
    0.99,
    0.998,
)


def cell_starts(share: FloatArray, levels: ArrayLike = CELL_QUANTILES) -> NDArray[np.intp]:
    """Return the index of the first atom of each cell between quantiles `levels`, given the
    cumulative shares of atoms.
    """
    cuts = np.unique(np.searchsorted(share, levels))
    return np.append(0, cuts[(cuts > 0) & (cuts < len(share))])


# candidate orders for zCDP, which bounds all orders
ORDERS = (1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 32.0)


@dataclass(frozen=True, slots=True, eq=False)
class Binned(Event):
    """Guess rule for Renyi claims: cells between nested events, the privacy loss of each cell, and
    the settings of the test.
    """

    # nested: each event guesses D1 on a smaller set than the event before. The cell index of an
    # output is the number of events that guess D1.
    events: tuple[Event, ...]
    loss: FloatArray  # h on each cell
    order: float  # Renyi order a
    forward: bool  # whether P is the distribution on D1 (else on D0)
    bets: FloatArray  # b for the two means

    kind: ClassVar[str] = "binned"

    def guess(self, outputs: Outputs) -> Guesses:
        return np.asarray(
            np.sum([event.guess(outputs) > 0 for event in self.events], axis=0), dtype=np.int8
        )

    def tabulate(self, outputs: Outputs, rounds: int = 0) -> NDArray[np.int64]:
        return np.bincount(self.guess(outputs), minlength=len(self.loss)).astype(np.int64)

    @property
    def directions(self) -> int:
        return 2

    @property
    def axis(self) -> str:
        lines = {event.axis for event in self.events}
        return lines.pop() if len(lines) == 1 else ""

    def position(self, outputs: Outputs) -> FloatArray:
        return self.events[0].position(outputs)

    def cuts(self) -> FloatArray:
        return np.concatenate([event.cuts() for event in self.events])

    def guess_at(self, places: FloatArray) -> Guesses:
        return self._side(np.sum([event.guess_at(places) > 0 for event in self.events], axis=0))

    def cell(self, outputs: Outputs) -> NDArray[np.intp]:
        return np.array([2, 0, 1])[self._side(self.guess(outputs))]

    def _side(self, cells: NDArray[Any]) -> Guesses:
        """Return the dataset that each cell favors: +1 for D1, -1 for D0."""
        sides = (np.sign(self.loss) * (1 if self.forward else -1)).astype(np.int8)
        return np.asarray(sides[cells], dtype=np.int8)

    def describe(self) -> str:
        direction = "D1 to D0" if self.forward else "D0 to D1"
        outermost = self.events[-1].describe()
        return (
            f"Renyi divergence of order {self.order:g} from {direction} over {len(self.loss)} "
            f"cells; outermost cell: {outermost}"
        )


def _scaled_exponentials(
    loss: FloatArray, order: float
) -> tuple[FloatArray, FloatArray, float, float]:
    """Return the two variables on the cells, scaled to [0, 1], and the logarithms of the two scale
    factors.
    """
    first, second = np.exp((order - 1) * loss), np.exp(order * loss)
    return (
        first / first.max(),
        second / second.max(),
        float((order - 1) * loss.max()),
        float(order * loss.max()),
    )


def train_renyi_rule(
    claim: Claim, events: tuple[Event, ...], table: FloatArray, rounds: int, alpha: float
) -> Binned | None:
    """Fit loss, order, direction and bets from training counts (2, cells) on D1 and D0; return None
    if the expected bound is 0.
    """
    losses = []
    for forward in (True, False):
        p, q = (table if forward else table[::-1]) + 0.5
        loss = np.clip(np.log(p / p.sum()) - np.log(q / q.sum()), -6, 6)
        # shrink each loss by half of its standard error: large powers of a noisy loss reduce the
        # bound
        loss = np.sign(loss) * np.maximum(np.abs(loss) - 0.5 * np.sqrt(1 / p + 1 / q), 0.0)
        losses.append((forward, loss, p / p.sum(), q / q.sum()))
    value, rule = _best_rule(claim, events, losses, table * (rounds / table.sum()), rounds, alpha)
    return rule if value > 0 else None


def _best_rule(
    claim: Claim,
    events: tuple[Event, ...],
    losses: Sequence[tuple[bool, FloatArray, FloatArray, FloatArray]],
    counts: FloatArray,
    rounds: float,
    alpha: float,
) -> tuple[float, Binned]:
    """Return the largest bound that expected counts certify, and its rule, over directions with
    their losses and the masses (P, Q) of the cells, and over orders.
    """
    found = []
    for forward, loss, p, q in losses:
        for order in claim.orders_among(ORDERS):
            x, y, _, _ = _scaled_exponentials(loss, order)
            bets = [
                _optimal_bet(values, law, rounds / 2, alpha / 2) for values, law in ((x, p), (y, q))
            ]
            rule = Binned(events, loss, float(order), forward, np.array(bets))
            found.append((renyi_lower_bound(claim, rule, counts, alpha), rule))
    return max(found, key=lambda each: each[0])


def _optimal_bet(values: FloatArray, law: FloatArray, size: float, alpha: float) -> float:
    """Return the bet that is optimal for a sample of this size under the normal approximation."""
    variance = max(float(law @ values**2 - (law @ values) ** 2), 1e-12)
    return float(min(np.sqrt(2 * np.log(1 / alpha) / (size * variance)), 0.9))


def _mean_lower_limit(values: FloatArray, counts: FloatArray, bet: float, alpha: float) -> float:
    """Return a lower confidence limit of the mean of a variable in [0, 1] that took each of
    `values` `counts` times.
    """

    def rejected(mean: float) -> bool:
        return float(counts @ np.log1p(bet * (values - mean))) >= float(np.log(1 / alpha))

    return bracket(rejected, 0.0, 1.0, 60)[0]


def renyi_lower_bound(
    claim: Claim, rule: Binned, table: FloatArray | NDArray[np.int64], alpha: float
) -> float:
    """Return a certified lower bound on the parameter of an RDP or zCDP claim from cell counts (2,
    cells), at error `alpha`.
    """
    p, q = np.asarray(table, dtype=float)[:: 1 if rule.forward else -1]
    x, y, x_scale, y_scale = _scaled_exponentials(rule.loss, rule.order)
    first = _mean_lower_limit(x, p, float(rule.bets[0]), alpha / 2)
    second = 1 - _mean_lower_limit(1 - y, q, float(rule.bets[1]), alpha / 2)
    if first <= 0:
        return 0.0
    divergence = rule.order / (rule.order - 1) * (np.log(first) + x_scale) - (
        np.log(second) + y_scale
    )
    return float(max(0.0, divergence / claim.divergence_at(rule.order)))


def expected_renyi_bound(
    claim: Claim, p: FloatArray, q: FloatArray, rounds: float, alpha: float, z: float = 0.0
) -> float:
    """Return the bound that `renyi_lower_bound` is expected to certify on cells with masses p on D1
    and q on D0.

    Each mean is moved `z` standard errors to the unfavorable side. The losses are the log-ratios of
    the masses. A bet costs sqrt(2 ln(2/alpha)) standard errors of its mean. The result is the best
    value over directions and orders.
    """
    best, margin = 0.0, np.sqrt(2 * np.log(2 / alpha)) + z
    for first, second in ((p, q), (q, p)):
        nonempty = (first > 0) | (second > 0)
        a, b = np.maximum(first[nonempty], 1e-300), np.maximum(second[nonempty], 1e-300)
        loss = np.clip(_log(a) - _log(b), -6, 6)
        for order in claim.orders_among(ORDERS):
            x, y, x_scale, y_scale = _scaled_exponentials(loss, order)
            low, high = float(a @ x), float(b @ y)
            low -= margin * float(np.sqrt(max(float(a @ x**2) - low**2, 0.0) / (rounds / 2)))
            high += margin * float(np.sqrt(max(float(b @ y**2) - high**2, 0.0) / (rounds / 2)))
            if low > 0:
                divergence = order / (order - 1) * (np.log(low) + x_scale) - (
                    np.log(high) + y_scale
                )
                best = max(best, float(divergence) / claim.divergence_at(order))
    return best


def best_expected_renyi_bound(
    claim: Claim, p: FloatArray, q: FloatArray, rounds: float, alpha: float
) -> float:
    """Return `renyi_lower_bound` of the best rule for known cell masses at the expected counts:
    half of all tests certify this value.
    """
    losses = [
        (forward, np.clip(_log(first) - _log(second), -most, most), first, second)
        for forward, first, second in ((True, p, q), (False, q, p))
        # with few rounds, rare cells with a large loss reduce the bound
        for most in (1.0, 2.0, 3.0, 4.5, 6.0, 12.0)
    ]
    return _best_rule(claim, (), losses, np.array([p, q]) * rounds / 2, rounds, alpha)[0]


def _log(mass: FloatArray) -> FloatArray:
    """Return the logarithms of masses, finite where a mass is 0."""
    return np.asarray(np.log(np.maximum(mass, 1e-300)))
