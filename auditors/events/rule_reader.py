"""Reader of the event of a witness: validates the fields of each guess rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dpwitness.auditors.events.event import Binned, Event, Restricted
from dpwitness.auditors.events.features import (
    Block,
    Distances,
    Levels,
    Places,
    ProjectedRamps,
    Ramps,
    Trees,
    WhitenedDistances,
)
from dpwitness.auditors.events.rules import (
    Atoms,
    Ball,
    Intervals,
    Lattice,
    LowBits,
    Threshold,
    WeightedScore,
)
from dpwitness.core.values.json_codec import from_jsonable
from dpwitness.core.values.json_reader import record, refuse, text
from dpwitness.core.values.validation import InvalidArgument

COLUMNS = 2**17  # maximum number of columns of an output
NESTED = 256  # maximum number of events of a binned rule

# raises InvalidArgument with the field and its rule if the condition is false
Check = Callable[[Any, str], None]


def read_event(data: Any, path: str = "event") -> Event:
    """Return the event that `Event.to_json` wrote. Raise InvalidArgument with the path of the field
    for anything else.
    """
    fields = record({"kind": text(100)}, rule=lambda value, _: value)(data, path)
    event = from_jsonable(fields["rule"], f"{path}.rule")
    if not isinstance(event, Event):
        refuse(f"{path}.rule", "be a guess rule", fields["rule"])
    if fields.get("kind", event.kind) != event.kind:
        refuse(f"{path}.kind", f"be {event.kind!r}, the kind of its rule", fields["kind"])
    check_event(event, f"{path}.rule.fields")
    return event


def check_event(event: Event, path: str) -> None:
    """Raise InvalidArgument if the fields of a rule are inconsistent; the constructor does not
    check this.
    """

    def require(condition: Any, field: str) -> None:
        if not condition:
            raise InvalidArgument(f"{path}.{field}")

    if isinstance(event, Intervals | Lattice | LowBits):
        require(
            _is_integer(event.column, 0, COLUMNS),
            f"column must be a whole number, between 0 and {COLUMNS}",
        )
    _CHECKS[type(event)](event, require, path)


def columns_of(event: Event) -> int:
    """Return the number of output columns that a rule needs; outputs are padded to this width, so
    wide rules need small chunks.
    """
    if isinstance(event, Binned):
        return max(map(columns_of, event.events))
    if isinstance(event, Restricted):
        return max(columns_of(event.event), 1 if event.mask is None else columns_of(event.mask))
    if isinstance(event, Threshold):
        return event.score.width
    if isinstance(event, Atoms):
        return int(event.rows.shape[1])
    if isinstance(event, Ball):
        return len(event.center)
    return int(getattr(event, "column", 0)) + 1


def _is_float_array(value: Any, axes: int = 1) -> bool:
    """Return whether the value is a float64 array with this number of axes."""
    return isinstance(value, np.ndarray) and value.dtype == np.float64 and value.ndim == axes


def _are_finite(value: Any, count: int) -> bool:
    """Return whether the value is a vector of `count` finite floats."""
    return _is_float_array(value) and len(value) == count and bool(np.isfinite(value).all())


def _is_guess_array(value: Any, count: int) -> bool:
    """Return whether the value is an array of `count` guesses, each -1, 0 or 1."""
    return (
        _is_float_array(value)
        and len(value) == count
        and bool(np.isin(value, (-1.0, 0.0, 1.0)).all())
    )


def _is_integer(value: Any, least: int, most: int) -> bool:
    """Return whether the value is an integer (not a bool) between `least` and `most`."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _is_number(value: Any) -> bool:
    """Return whether the value is a float other than NaN, or an integer that a float represents
    exactly.
    """
    return value == value if isinstance(value, float) else _is_integer(value, -(2**53), 2**53)


def _is_increasing(value: Any) -> bool:
    """Return whether the value is a float array in strictly increasing order."""
    return _is_float_array(value) and not np.isnan(value).any() and bool((np.diff(value) > 0).all())


def _check_intervals(rule: Intervals, require: Check, path: str) -> None:
    """Check the other fields of `Intervals`."""
    require(_is_increasing(rule.edges), "edges must be a list of increasing numbers")
    require(
        _is_guess_array(rule.guesses, len(rule.edges) + 1),
        "guesses must be -1, 0 or 1, one more than edges",
    )
    require(_is_integer(rule.missing, -1, 1), "missing must be -1, 0 or 1")


def _check_threshold(rule: Threshold, require: Check, path: str) -> None:
    """Check the fields of `Threshold`."""
    require(isinstance(rule.score, WeightedScore), "score must be a sum over features")
    require(_is_number(rule.low), "low must be a number")
    require(_is_number(rule.high), "high must be a number")
    require(rule.low <= rule.high, "low must not exceed high")
    score = rule.score
    require(
        isinstance(score.structures, tuple)
        and all(
            isinstance(s, tuple) and len(s) == 2 and isinstance(s[0], str) and _is_number(s[1])
            for s in score.structures
        ),
        "score.structures must hold names and scores",
    )
    require(
        _is_integer(score.width, 0, COLUMNS),
        f"score.width must be a whole number, between 0 and {COLUMNS}",
    )
    require(
        _is_number(score.offset) and abs(score.offset) < np.inf,
        "score.offset must be a finite number",
    )
    require(
        isinstance(score.blocks, tuple) and len(score.blocks) <= COLUMNS,
        "score.blocks must be a tuple",
    )
    for part in score.blocks:
        require(
            isinstance(part, tuple) and len(part) == 2 and isinstance(part[0], Block),
            "score.blocks must hold features and weights",
        )
        block, weights = part
        _check_block(block, score.width, require)
        count = block.columns(np.zeros((1, score.width + 1))).shape[1]
        require(
            _are_finite(weights, count),
            f"score.blocks must have a finite weight for each of {count} features",
        )


def _check_block(block: Any, width: int, require: Check) -> None:
    """Check that the columns of a block exist and its numbers match them."""
    if isinstance(block, Levels | Ramps):
        require(
            _is_integer(block.column, 0, width),
            f"score.blocks must name a column, between 0 and {width}",
        )
        knots = block.keys if isinstance(block, Levels) else block.knots
        require(
            _is_increasing(knots) and len(knots) <= NESTED,
            f"score.blocks must have at most {NESTED} increasing knots",
        )
        if isinstance(block, Ramps):
            require(
                _is_integer(block.less, -1, width),
                f"score.blocks must name a column to subtract, between -1 and {width}",
            )
            require(
                len(knots) >= 2 and np.isfinite(knots).all(),
                "score.blocks must have at least 2 finite knots",
            )
        return
    if isinstance(block, Trees):
        _check_trees(block, width, require)
        return
    at = block.at
    require(
        isinstance(at, np.ndarray)
        and at.dtype == np.int64
        and at.ndim == 1
        and 1 <= len(at) <= NESTED
        and ((at >= 0) & (at <= width)).all(),
        f"score.blocks must name columns, between 0 and {width}",
    )
    if isinstance(block, Places):
        require(_is_number(block.value), "score.blocks must have a number as value")
        return
    for name in ("center", "scale", *(("one", "zero") if isinstance(block, Distances) else ())):
        require(
            _are_finite(getattr(block, name), len(at)),
            f"score.blocks must have a {name} for each column",
        )
    require(bool((block.scale > 0).all()), "score.blocks must have positive scales")
    if isinstance(block, ProjectedRamps):
        knots = block.knots
        require(
            _are_finite(block.direction, len(at)),
            "score.blocks must have a direction with a number for each column",
        )
        require(
            _is_increasing(knots) and 2 <= len(knots) <= NESTED and np.isfinite(knots).all(),
            "score.blocks must have 2 knots or more",
        )
    if isinstance(block, WhitenedDistances):
        mix = block.whitening
        require(
            _is_float_array(mix, 2) and mix.shape == (len(at), len(at)) and np.isfinite(mix).all(),
            "score.blocks must have a square matrix of whitening, one row for each column",
        )


def _check_trees(block: Trees, width: int, require: Check) -> None:
    """Check that the nodes of a `Trees` block exist and each child comes after its parent."""
    columns = (block.feature, block.left, block.right, block.roots)
    has_integers = all(
        isinstance(c, np.ndarray) and c.dtype == np.int64 and c.ndim == 1 for c in columns
    )
    nodes = len(block.feature) if has_integers else 0
    require(
        has_integers
        and 1 <= nodes <= COLUMNS
        and len(block.left) == len(block.right) == nodes
        and 1 <= len(block.roots) <= NESTED
        and _are_finite(block.threshold, nodes)
        and _are_finite(block.value, nodes),
        f"score.blocks must have trees of at most {COLUMNS} nodes, each with its numbers",
    )
    leaf = block.left < 0
    down = (
        (block.left > np.arange(nodes))
        & (block.right > np.arange(nodes))
        & (np.maximum(block.left, block.right) < nodes)
    )
    require(
        bool((leaf | down).all()),
        "score.blocks must have trees whose children come after their parents",
    )
    require(
        bool(((block.roots >= 0) & (block.roots < nodes)).all()),
        f"score.blocks must have roots between 0 and {nodes - 1}",
    )
    split = block.feature[~leaf]
    require(
        bool(((split >= 0) & (split <= width)).all()),
        f"score.blocks must have trees on columns between 0 and {width}",
    )


def _check_atoms(rule: Atoms, require: Check, path: str) -> None:
    """Check the fields of `Atoms`."""
    require(
        _is_float_array(rule.rows, 2) and len(rule.rows) and 1 <= rule.rows.shape[1] <= COLUMNS,
        "rows must be a matrix of numbers with at least one row",
    )
    require(
        _is_guess_array(rule.guesses, len(rule.rows)),
        "guesses must be -1, 0 or 1, one for each row",
    )
    require(
        isinstance(rule.names, tuple)
        and all(isinstance(name, str) for name in rule.names)
        and len(rule.names) in (0, len(rule.rows)),
        "names must be texts, one for each row or none",
    )
    if rule.exact is not None:
        require(
            _is_float_array(rule.exact, 2) and rule.exact.shape[1] == 2,
            "exact must be pairs of a column and a value",
        )
        columns = rule.exact[:, 0]
        require(
            bool(np.isin(columns, np.arange(1, rule.rows.shape[1])).all()),
            f"exact must have columns between 1 and {rule.rows.shape[1] - 1}",
        )


def _check_lattice(rule: Lattice, require: Check, path: str) -> None:
    """Check the other fields of `Lattice`."""
    require(
        _is_float_array(rule.rows, 2) and len(rule.rows) and rule.rows.shape[1] == 2,
        "rows must be pairs of exponents",
    )
    require(
        _is_guess_array(rule.guesses, len(rule.rows)),
        "guesses must be -1, 0 or 1, one for each row",
    )


def _check_low_bits(rule: LowBits, require: Check, path: str) -> None:
    """Check the other fields of `LowBits`."""
    require(_is_number(rule.below), "below must be a number")
    require(_is_integer(rule.side, -1, 1) and rule.side, "side must be -1 or 1")


def _check_ball(rule: Ball, require: Check, path: str) -> None:
    """Check the fields of `Ball`."""
    require(
        _is_float_array(rule.center)
        and 1 <= len(rule.center) <= COLUMNS
        and np.isfinite(rule.center).all(),
        "center must be a finite vector",
    )
    require(_is_number(rule.inner), "inner must be a number")
    require(
        _is_number(rule.outer) and rule.inner <= rule.outer,
        "outer must be a number, at least inner",
    )
    require(_is_integer(rule.inside, -1, 1) and rule.inside, "inside must be -1 or 1")


def _check_binned(rule: Binned, require: Check, path: str) -> None:
    """Check the fields of `Binned`."""
    require(
        isinstance(rule.events, tuple)
        and all(isinstance(each, Event) and not isinstance(each, Binned) for each in rule.events)
        and 1 <= len(rule.events) <= NESTED,
        f"events must be between 1 and {NESTED} guess rules",
    )
    for i, event in enumerate(rule.events):
        check_event(event, f"{path}.events[{i}]")
    require(
        _are_finite(rule.loss, len(rule.events) + 1) and (np.abs(rule.loss) <= 50).all(),
        "loss must have a number between -50 and 50 for each cell",
    )
    require(
        _is_number(rule.order) and 1 < rule.order <= 1e4,
        "order must be a number above 1, at most 1e4",
    )
    require(isinstance(rule.forward, bool), "forward must be true or false")
    require(
        _is_float_array(rule.bets)
        and len(rule.bets) == 2
        and bool(((rule.bets >= 0) & (rule.bets < 1)).all()),
        "bets must be two numbers in [0, 1)",
    )


def _check_restricted(rule: Restricted, require: Check, path: str) -> None:
    """Check the fields of `Restricted`."""
    for name, nested in (
        ("event", rule.event),
        *([] if rule.mask is None else [("mask", rule.mask)]),
    ):
        require(
            isinstance(nested, Event) and not isinstance(nested, Binned | Restricted),
            f"{name} must be a guess rule",
        )
        check_event(nested, f"{path}.{name}")
    require(
        _is_increasing(rule.codes) and len(rule.codes) <= COLUMNS,
        "codes must be a list of increasing numbers",
    )
    require(isinstance(rule.inside, bool), "inside must be true or false")
    require(_is_integer(rule.side, -1, 1), "side must be -1, 0 or 1")


_CHECKS: dict[type, Callable[[Any, Check, str], None]] = {
    Intervals: _check_intervals,
    Threshold: _check_threshold,
    Atoms: _check_atoms,
    Lattice: _check_lattice,
    LowBits: _check_low_bits,
    Ball: _check_ball,
    Binned: _check_binned,
    Restricted: _check_restricted,
}
