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
    NumericBlock,
    Places,
    ProjectedRamps,
    Ramps,
    Trees,
    WhitenedDistances,
)
from dpwitness.auditors.events.rules import (
    Atoms,
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

# message on a field, and the test of a rule or block that must hold for it, in the order in which
# tests rely on earlier ones; tests of blocks also get the width of the outputs
Rules = tuple[tuple[str, Callable[..., Any]], ...]


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
    for message, holds in _RULES[type(event)]:
        if not holds(event):
            raise InvalidArgument(f"{path}.{message}")
    if isinstance(event, Threshold):
        _check_blocks(event.score, f"{path}.score.blocks")
    inner: dict[str, Event | None] = {}
    if isinstance(event, Binned):
        inner = {f"events[{i}]": each for i, each in enumerate(event.events)}
    elif isinstance(event, Restricted):
        inner = {"event": event.event, "mask": event.mask}
    for name, each in inner.items():
        if each is not None:
            check_event(each, f"{path}.{name}")


def _check_blocks(score: WeightedScore, path: str) -> None:
    """Raise InvalidArgument if fields of a block are inconsistent, or do not fit its weights."""
    width = score.width
    for block, weights in score.blocks:
        for kind in reversed(type(block).__mro__):  # the fields of a base class first
            for message, holds in _BLOCK_RULES.get(kind, ()):
                if not holds(block, width):
                    raise InvalidArgument(f"{path} must {message.format(width=width)}")
        count = block.columns(np.zeros((1, width + 1))).shape[1]
        if not _are_finite(weights, count):
            raise InvalidArgument(f"{path} must have a finite weight for each of {count} features")


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


def _are_knots(value: Any) -> bool:
    """Return whether the value is an array of increasing finite numbers, at least 2."""
    return _is_increasing(value) and 2 <= len(value) <= NESTED and bool(np.isfinite(value).all())


def _are_nodes(block: Trees) -> bool:
    """Return whether the nodes of a `Trees` block have their numbers."""
    columns = (block.feature, block.left, block.right, block.roots)
    if not all(isinstance(c, np.ndarray) and c.dtype == np.int64 and c.ndim == 1 for c in columns):
        return False
    nodes = len(block.feature)
    return (
        1 <= nodes <= COLUMNS
        and len(block.left) == len(block.right) == nodes
        and 1 <= len(block.roots) <= NESTED
        and _are_finite(block.threshold, nodes)
        and _are_finite(block.value, nodes)
    )


_COLUMN: Rules = (
    (
        f"column must be a whole number, between 0 and {COLUMNS}",
        lambda rule: _is_integer(rule.column, 0, COLUMNS),
    ),
)
_GUESSES: Rules = (
    (
        "guesses must be -1, 0 or 1, one for each row",
        lambda rule: _is_guess_array(rule.guesses, len(rule.rows)),
    ),
)
_RULES: dict[type, Rules] = {
    Intervals: (
        *_COLUMN,
        ("edges must be a list of increasing numbers", lambda rule: _is_increasing(rule.edges)),
        (
            "guesses must be -1, 0 or 1, one more than edges",
            lambda rule: _is_guess_array(rule.guesses, len(rule.edges) + 1),
        ),
        ("missing must be -1, 0 or 1", lambda rule: _is_integer(rule.missing, -1, 1)),
    ),
    Threshold: (
        ("score must be a sum over features", lambda rule: isinstance(rule.score, WeightedScore)),
        ("low must be a number", lambda rule: _is_number(rule.low)),
        ("high must be a number", lambda rule: _is_number(rule.high)),
        ("low must not exceed high", lambda rule: rule.low <= rule.high),
        (
            "score.structures must hold names and scores",
            lambda rule: (
                isinstance(rule.score.structures, tuple)
                and all(
                    isinstance(each, tuple)
                    and len(each) == 2
                    and isinstance(each[0], str)
                    and _is_number(each[1])
                    for each in rule.score.structures
                )
            ),
        ),
        (
            f"score.width must be a whole number, between 0 and {COLUMNS}",
            lambda rule: _is_integer(rule.score.width, 0, COLUMNS),
        ),
        (
            "score.offset must be a finite number",
            lambda rule: _is_number(rule.score.offset) and abs(rule.score.offset) < np.inf,
        ),
        (
            "score.blocks must be a tuple",
            lambda rule: isinstance(rule.score.blocks, tuple) and len(rule.score.blocks) <= COLUMNS,
        ),
        (
            "score.blocks must hold features and weights",
            lambda rule: all(
                isinstance(part, tuple) and len(part) == 2 and isinstance(part[0], Block)
                for part in rule.score.blocks
            ),
        ),
    ),
    Atoms: (
        (
            "rows must be a matrix of numbers with at least one row",
            lambda rule: (
                _is_float_array(rule.rows, 2)
                and len(rule.rows)
                and 1 <= rule.rows.shape[1] <= COLUMNS
            ),
        ),
        *_GUESSES,
        (
            "names must be texts, one for each row or none",
            lambda rule: (
                isinstance(rule.names, tuple)
                and all(isinstance(name, str) for name in rule.names)
                and len(rule.names) in (0, len(rule.rows))
            ),
        ),
        (
            "exact must be pairs of a column and a value",
            lambda rule: (
                rule.exact is None or (_is_float_array(rule.exact, 2) and rule.exact.shape[1] == 2)
            ),
        ),
        (
            "exact must have columns of the rows, at least 1",
            lambda rule: (
                rule.exact is None
                or np.isin(rule.exact[:, 0], np.arange(1, rule.rows.shape[1])).all()
            ),
        ),
    ),
    Lattice: (
        *_COLUMN,
        (
            "rows must be pairs of exponents",
            lambda rule: (
                _is_float_array(rule.rows, 2) and len(rule.rows) and rule.rows.shape[1] == 2
            ),
        ),
        *_GUESSES,
    ),
    LowBits: (
        *_COLUMN,
        ("below must be a number", lambda rule: _is_number(rule.below)),
        ("side must be -1 or 1", lambda rule: _is_integer(rule.side, -1, 1) and rule.side),
    ),
    Binned: (
        (
            f"events must be between 1 and {NESTED} guess rules",
            lambda rule: (
                isinstance(rule.events, tuple)
                and all(isinstance(e, Event) and not isinstance(e, Binned) for e in rule.events)
                and 1 <= len(rule.events) <= NESTED
            ),
        ),
        (
            "loss must have a number between -50 and 50 for each cell",
            lambda rule: (
                _are_finite(rule.loss, len(rule.events) + 1) and (np.abs(rule.loss) <= 50).all()
            ),
        ),
        (
            "order must be a number above 1, at most 1e4",
            lambda rule: _is_number(rule.order) and 1 < rule.order <= 1e4,
        ),
        ("forward must be true or false", lambda rule: isinstance(rule.forward, bool)),
        (
            "bets must be two numbers in [0, 1)",
            lambda rule: _are_finite(rule.bets, 2) and ((rule.bets >= 0) & (rule.bets < 1)).all(),
        ),
    ),
    Restricted: (
        (
            "event must be a guess rule",
            lambda rule: (
                isinstance(rule.event, Event) and not isinstance(rule.event, Binned | Restricted)
            ),
        ),
        (
            "mask must be a guess rule",
            lambda rule: (
                isinstance(rule.mask, Event | None)
                and not isinstance(rule.mask, Binned | Restricted)
            ),
        ),
        (
            "codes must be a list of increasing numbers",
            lambda rule: _is_increasing(rule.codes) and len(rule.codes) <= COLUMNS,
        ),
        ("inside must be true or false", lambda rule: isinstance(rule.inside, bool)),
        ("side must be -1, 0 or 1", lambda rule: _is_integer(rule.side, -1, 1)),
    ),
}
_BLOCK_COLUMN: Rules = (
    (
        "name a column, between 0 and {width}",
        lambda block, width: _is_integer(block.column, 0, width),
    ),
)
_BLOCK_COLUMNS: Rules = (
    (
        "name columns, between 0 and {width}",
        lambda block, width: (
            isinstance(block.at, np.ndarray)
            and block.at.dtype == np.int64
            and block.at.ndim == 1
            and 1 <= len(block.at) <= NESTED
            and ((block.at >= 0) & (block.at <= width)).all()
        ),
    ),
)
# by class, without the rules of its base classes
_BLOCK_RULES: dict[type, Rules] = {
    Levels: (
        *_BLOCK_COLUMN,
        (
            f"have at most {NESTED} increasing knots",
            lambda block, width: _is_increasing(block.keys) and len(block.keys) <= NESTED,
        ),
    ),
    Ramps: (
        *_BLOCK_COLUMN,
        (
            "name a column to subtract, between -1 and {width}",
            lambda block, width: _is_integer(block.less, -1, width),
        ),
        (
            f"have between 2 and {NESTED} increasing finite knots",
            lambda block, width: _are_knots(block.knots),
        ),
    ),
    Trees: (
        (
            f"have trees of at most {COLUMNS} nodes, each with its numbers",
            lambda block, width: _are_nodes(block),
        ),
        (
            "have trees whose children come after their parents",
            lambda block, width: (
                (block.left < 0)
                | (
                    (np.minimum(block.left, block.right) > np.arange(len(block.left)))
                    & (np.maximum(block.left, block.right) < len(block.left))
                )
            ).all(),
        ),
        (
            "have roots between 0 and the last node",
            lambda block, width: ((block.roots >= 0) & (block.roots < len(block.feature))).all(),
        ),
        (
            "have trees on columns between 0 and {width}",
            lambda block, width: (
                (block.left < 0) | ((block.feature >= 0) & (block.feature <= width))
            ).all(),
        ),
    ),
    Places: (
        *_BLOCK_COLUMNS,
        ("have a number as value", lambda block, width: _is_number(block.value)),
    ),
    NumericBlock: (
        *_BLOCK_COLUMNS,
        (
            "have a center for each column",
            lambda block, width: _are_finite(block.center, len(block.at)),
        ),
        (
            "have a scale for each column",
            lambda block, width: _are_finite(block.scale, len(block.at)),
        ),
        ("have positive scales", lambda block, width: (block.scale > 0).all()),
    ),
    Distances: (
        ("have a one for each column", lambda block, width: _are_finite(block.one, len(block.at))),
        (
            "have a zero for each column",
            lambda block, width: _are_finite(block.zero, len(block.at)),
        ),
    ),
    ProjectedRamps: (
        (
            "have a direction with a number for each column",
            lambda block, width: _are_finite(block.direction, len(block.at)),
        ),
        (
            f"have between 2 and {NESTED} increasing finite knots",
            lambda block, width: _are_knots(block.knots),
        ),
    ),
    WhitenedDistances: (
        (
            "have a square matrix of whitening, one row for each column",
            lambda block, width: (
                _is_float_array(block.whitening, 2)
                and block.whitening.shape == (len(block.at), len(block.at))
                and np.isfinite(block.whitening).all()
            ),
        ),
    ),
}
