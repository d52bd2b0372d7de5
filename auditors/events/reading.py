"""Reading the event of a witness: which fields each guess rule has, and what they may hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dpwitness.auditors.events.divergence import Binned
from dpwitness.auditors.events.features import Block, Distances, Levels, Places, Ramps, Trees
from dpwitness.auditors.events.rules import Atoms, Ball, Event, Intervals, Lattice, LowBits, Threshold, WeightedScore
from dpwitness.mechanisms.terms.jsonable import from_jsonable
from dpwitness.mechanisms.terms.reading import record, refuse, text
from dpwitness.mechanisms.terms.validation import InvalidArgument

COLUMNS = 2**17  # of an output
NESTED = 256  # events of a binned rule

Check = Callable[[Any, str], None]  # raises with the field and its rule where the condition is false


def read_event(data: Any, path: str = "event") -> Event:
    """The event that `Event.to_json` wrote. Raises InvalidArgument, with the path of the field, for anything else."""
    fields = record({"kind": text(100)}, rule=lambda value, _: value)(data, path)
    event = from_jsonable(fields["rule"], f"{path}.rule")
    if not isinstance(event, Event):
        refuse(f"{path}.rule", "be a guess rule", fields["rule"])
    if fields.get("kind", event.kind) != event.kind:
        refuse(f"{path}.kind", f"be {event.kind!r}, as its rule is", fields["kind"])
    check_event(event, f"{path}.rule.fields")
    return event


def check_event(event: Event, path: str) -> None:
    """Refuse a rule whose fields do not fit each other: its constructor alone would take them."""

    def need(condition: Any, field: str) -> None:
        if not condition:
            raise InvalidArgument(f"{path}.{field}")

    _CHECKS[type(event)](event, need, path)


def columns_of(event: Event) -> int:
    """How many columns of the outputs a rule looks at: outputs are padded to as many, so chunks must be smaller where they are many."""
    if isinstance(event, Binned):
        return max(map(columns_of, event.events))
    if isinstance(event, Threshold):
        return event.score.width
    if isinstance(event, Atoms):
        return int(event.rows.shape[1])
    if isinstance(event, Ball):
        return len(event.center)
    return int(getattr(event, "column", 0)) + 1


def _numbers(value: Any, axes: int = 1) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == np.float64 and value.ndim == axes


def _guesses(value: Any, count: int) -> bool:
    return _numbers(value) and len(value) == count and bool(np.isin(value, (-1.0, 0.0, 1.0)).all())


def _whole(value: Any, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _real(value: Any) -> bool:
    """A float that is no NaN, or a whole number that NumPy takes for one."""
    return value == value if isinstance(value, float) else _whole(value, -(2**53), 2**53)


def _increasing(value: Any) -> bool:
    return _numbers(value) and not np.isnan(value).any() and bool((np.diff(value) > 0).all())


def _intervals(it: Intervals, need: Check, path: str) -> None:
    need(_whole(it.column, 0, COLUMNS), f"column must be a whole number, between 0 and {COLUMNS}")
    need(_increasing(it.edges), "edges must be a list of increasing numbers")
    need(_guesses(it.guesses, len(it.edges) + 1), "guesses must be -1, 0 or 1, one more than edges")
    need(_whole(it.missing, -1, 1), "missing must be -1, 0 or 1")


def _threshold(it: Threshold, need: Check, path: str) -> None:
    need(isinstance(it.score, WeightedScore), "score must be a sum over features")
    need(_real(it.low), "low must be a number")
    need(_real(it.high), "high must be a number")
    need(it.low <= it.high, "low must not exceed high")
    _weighted(it.score, need)


def _weighted(score: Any, need: Check) -> None:
    named = isinstance(score.structures, tuple) and all(
        isinstance(s, tuple) and len(s) == 2 and isinstance(s[0], str) and _real(s[1]) for s in score.structures
    )
    need(named, "score.structures must hold names and scores")
    need(_whole(score.width, 0, COLUMNS), f"score.width must be a whole number, between 0 and {COLUMNS}")
    need(_real(score.offset) and abs(score.offset) < np.inf, "score.offset must be a finite number")
    need(isinstance(score.blocks, tuple) and len(score.blocks) <= COLUMNS, "score.blocks must be a tuple")
    for part in score.blocks:
        need(isinstance(part, tuple) and len(part) == 2 and isinstance(part[0], Block), "score.blocks must hold features and weights")
        block, weights = part
        _block(block, score.width, need)
        count = block.columns(np.zeros((1, score.width + 1))).shape[1]
        valued = _numbers(weights) and len(weights) == count and bool(np.isfinite(weights).all())
        need(valued, f"score.blocks must have a finite weight for each of {count} features")


def _block(block: Any, width: int, need: Check) -> None:
    """Columns that are there, and numbers that fit them."""
    if isinstance(block, Levels | Ramps):
        need(_whole(block.column, 0, width), f"score.blocks must name a column, between 0 and {width}")
        knots = block.keys if isinstance(block, Levels) else block.knots
        need(_increasing(knots) and len(knots) <= NESTED, f"score.blocks must have at most {NESTED} increasing knots")
        if isinstance(block, Ramps):
            need(_whole(block.less, -1, width), f"score.blocks must name a column to take off, between -1 and {width}")
            need(len(knots) >= 2 and np.isfinite(knots).all(), "score.blocks must have at least 2 finite knots")
        return
    if isinstance(block, Trees):
        _trees(block, width, need)
        return
    at = block.at
    fits = isinstance(at, np.ndarray) and at.dtype == np.int64 and at.ndim == 1 and 1 <= len(at) <= NESTED
    need(fits and bool(((at >= 0) & (at <= width)).all()), f"score.blocks must name columns, between 0 and {width}")
    if isinstance(block, Places):
        need(_real(block.value), "score.blocks must have a value to look for")
        return
    for name in ("center", "scale", *(("one", "zero") if isinstance(block, Distances) else ())):
        value = getattr(block, name)
        need(
            _numbers(value) and len(value) == len(at) and bool(np.isfinite(value).all()), f"score.blocks must have a {name} for each column"
        )
    need(bool((block.scale > 0).all()), "score.blocks must have positive scales")


def _trees(block: Trees, width: int, need: Check) -> None:
    """Nodes that are there, each below its parent."""
    columns = (block.feature, block.left, block.right, block.roots)
    whole = all(isinstance(c, np.ndarray) and c.dtype == np.int64 and c.ndim == 1 for c in columns)
    nodes = len(block.feature) if whole else 0
    sized = whole and 1 <= nodes <= COLUMNS and len(block.left) == len(block.right) == nodes and 1 <= len(block.roots) <= NESTED
    valued = all(_numbers(c) and len(c) == nodes and bool(np.isfinite(c).all()) for c in (block.threshold, block.value))
    need(sized and valued, f"score.blocks must have trees of at most {COLUMNS} nodes, each with its numbers")
    leaf = block.left < 0
    down = (block.left > np.arange(nodes)) & (block.right > np.arange(nodes)) & (np.maximum(block.left, block.right) < nodes)
    need(bool((leaf | down).all()), "score.blocks must have trees whose children stand below their parents")
    need(bool(((block.roots >= 0) & (block.roots < nodes)).all()), f"score.blocks must have roots between 0 and {nodes - 1}")
    split = block.feature[~leaf]
    need(bool(((split >= 0) & (split <= width)).all()), f"score.blocks must have trees on columns between 0 and {width}")


def _atoms(it: Atoms, need: Check, path: str) -> None:
    need(_numbers(it.rows, 2) and len(it.rows) and 1 <= it.rows.shape[1] <= COLUMNS, "rows must be a matrix of numbers with a row at least")
    need(_guesses(it.guesses, len(it.rows)), "guesses must be -1, 0 or 1, one for each row")
    texts = isinstance(it.names, tuple) and all(isinstance(name, str) for name in it.names)
    need(texts and len(it.names) in (0, len(it.rows)), "names must be texts, one for each row or none")
    if it.exact is not None:
        need(_numbers(it.exact, 2) and it.exact.shape[1] == 2, "exact must be pairs of a column and a value")
        columns = it.exact[:, 0]
        need(bool(np.isin(columns, np.arange(1, it.rows.shape[1])).all()), f"exact must have columns between 1 and {it.rows.shape[1] - 1}")


def _lattice(it: Lattice, need: Check, path: str) -> None:
    need(_whole(it.column, 0, COLUMNS), f"column must be a whole number, between 0 and {COLUMNS}")
    need(_numbers(it.rows, 2) and len(it.rows) and it.rows.shape[1] == 2, "rows must be pairs of exponents")
    need(_guesses(it.guesses, len(it.rows)), "guesses must be -1, 0 or 1, one for each row")


def _low_bits(it: LowBits, need: Check, path: str) -> None:
    need(_whole(it.column, 0, COLUMNS), f"column must be a whole number, between 0 and {COLUMNS}")
    need(_real(it.below), "below must be a number")
    need(it.side in (-1, 1) and isinstance(it.side, int), "side must be -1 or 1")


def _ball(it: Ball, need: Check, path: str) -> None:
    need(_numbers(it.center) and 1 <= len(it.center) <= COLUMNS and np.isfinite(it.center).all(), "center must be a finite vector")
    need(_real(it.inner), "inner must be a number")
    need(_real(it.outer) and it.inner <= it.outer, "outer must be a number, at least inner")
    need(it.inside in (-1, 1) and isinstance(it.inside, int), "inside must be -1 or 1")


def _binned(it: Binned, need: Check, path: str) -> None:
    plain = isinstance(it.events, tuple) and all(isinstance(event, Event) and not isinstance(event, Binned) for event in it.events)
    need(plain and 1 <= len(it.events) <= NESTED, f"events must be between 1 and {NESTED} guess rules")
    for i, event in enumerate(it.events):
        check_event(event, f"{path}.events[{i}]")
    cells = _numbers(it.loss) and len(it.loss) == len(it.events) + 1 and bool((np.abs(it.loss) <= 50).all())
    need(cells, "loss must have a number for each cell, at most 50")
    need(_real(it.order) and 1 < it.order <= 1e4, "order must be a number above 1, at most 1e4")
    need(isinstance(it.forward, bool), "forward must be true or false")
    need(_numbers(it.bets) and len(it.bets) == 2 and bool(((it.bets >= 0) & (it.bets < 1)).all()), "bets must be two numbers in [0, 1)")


_CHECKS: dict[type, Callable[[Any, Check, str], None]] = {
    Intervals: _intervals,
    Threshold: _threshold,
    Atoms: _atoms,
    Lattice: _lattice,
    LowBits: _low_bits,
    Ball: _ball,
    Binned: _binned,
}
