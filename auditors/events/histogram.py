"""Histogram of outputs along an event, for display: counts on each dataset and the guess in each
bin. It certifies nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpwitness.auditors.events.event import Event
from dpwitness.auditors.events.outputs import Outputs
from dpwitness.core.protocols.mechanism import FloatArray
from dpwitness.core.values.json_reader import Json

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
