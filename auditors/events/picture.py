"""The picture of an event: how often outputs fall where on each dataset, and what is guessed there. For a person; it certifies nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpwitness.auditors.events.outputs import Outputs
from dpwitness.auditors.events.rules import Event
from dpwitness.mechanisms.terms.protocol import FloatArray
from dpwitness.mechanisms.terms.reading import Json

_BINS = 40
_TAIL = 0.002  # of the outputs on either side, that the outermost bins hold
_FAR = 1e300  # numbers beyond which differences overflow
_NEAR = 0.2  # of a bin, within which an edge gives way to one of the event's


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """A histogram of the line on which an event cuts, or counts of outputs that it lists.

    Attributes
    ----------
    axis : str
        What the line measures; empty where `names` tell the bins.
    edges : (bins + 1,) array
        Of the bins. The first and the last hold what lies beyond, NaN is left out. Empty where `names` tell them.
    names : tuple of str
    counts : (2, bins) array
        Outputs on D1 and on D0, none of which trained the event.
    guesses : (bins,) array
        +1 where D1 is guessed, -1 where D0 is, 0 where the event abstains.
    rounds : int
        Outputs that were looked at, on both datasets.
    """

    axis: str
    edges: FloatArray
    names: tuple[str, ...]
    counts: FloatArray
    guesses: FloatArray
    rounds: int

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


def picture(event: Event, sides: tuple[Outputs, Outputs]) -> Picture | None:
    """The picture of `event` over outputs on D1 and on D0; None where there is nothing to see."""
    rounds = sum(len(side) for side in sides)
    if not rounds:
        return None
    if not event.axis:
        names, guesses = event.listed()
        counts = np.array([np.bincount(event.cell(side), minlength=len(names)) for side in sides], dtype=float)
        return Picture("", np.empty(0), names, counts, np.array(guesses, dtype=float), rounds)
    lines = [event.position(side) for side in sides]
    finite = np.concatenate([line[np.abs(line) < _FAR] for line in lines])
    if not len(finite):
        return None
    edges = _edges(finite, event.cuts())
    inside = [np.clip(line[~np.isnan(line)], edges[0], edges[-1]) for line in lines]
    counts = np.array([np.histogram(line, edges)[0] for line in inside], dtype=float)
    return Picture(event.axis, edges, (), counts, event.guess_at((edges[1:] + edges[:-1]) / 2).astype(float), rounds)


def _edges(line: FloatArray, cuts: FloatArray) -> FloatArray:
    """Edges of about equal width over all but the tails; the event's own cuts are among them where they can be seen."""
    low, high = np.quantile(line, [_TAIL, 1 - _TAIL])
    cuts = np.unique(cuts[np.abs(cuts) < _FAR])
    near = cuts[(cuts > low - (high - low)) & (cuts < high + (high - low))]  # one further out would flatten all that can be seen
    low, high = min([low, *near]), max([high, *near])
    if not high > low:
        low, high = low - 0.5, high + 0.5
    width = (high - low) / _BINS
    plain = np.linspace(low, high, _BINS + 1)
    kept = plain[[not len(near) or np.abs(near - edge).min() > _NEAR * width for edge in plain]]
    ends = [low - width if len(near) and low in near else low, high + width if len(near) and high in near else high]
    edges = np.unique(np.concatenate([kept, near, ends]))
    apart: FloatArray = edges[np.append(True, np.diff(edges) > 1e-12 * max(abs(low), abs(high)))]
    return apart
