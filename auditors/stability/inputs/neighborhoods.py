"""Choice of the neighbors of an input space under a metric."""

from __future__ import annotations

from collections.abc import Sequence

from dpwitness.auditors.stability.inputs.column_edits import ColumnEdits, UserEdits
from dpwitness.auditors.stability.inputs.neighbors import Distance, Neighborhood, NumberMoves, RowEdits
from dpwitness.auditors.stability.inputs.spaces import InputSpace, ScalarOf, VectorOf
from dpwitness.mechanisms.core.validation import InvalidArgument

_ROW_METRICS = ("symmetric", "insert-delete", "change-one", "hamming", "discrete")
_NUMBER_METRICS = ("absolute", "l1", "l2", "linf")


def neighborhood(space: InputSpace, metric: str, d_in: Sequence[Distance]) -> Neighborhood:
    """Return the source of neighbors of a space under a metric. Raise InvalidArgument if the metric does not apply to the space."""
    if metric in _ROW_METRICS:
        if isinstance(space, ScalarOf) and metric != "discrete":
            raise InvalidArgument(f"audit_stability: input_metric of a scalar must be absolute or discrete, got {metric}")
        return RowEdits(space, metric, d_in)
    if metric in _NUMBER_METRICS:
        if isinstance(space, VectorOf | ScalarOf) and isinstance(space, ScalarOf) == (metric == "absolute"):
            return NumberMoves(space, metric, d_in)
        wanted = "a scalar" if metric == "absolute" else "a vector"
        raise InvalidArgument(f"audit_stability: input_metric {metric} needs {wanted} of numbers, got a {space.to_json()['type']}")
    if metric.startswith("user:"):
        return UserEdits(space, metric, d_in)
    if metric.startswith("by:"):
        return ColumnEdits(space, metric, d_in)
    raise InvalidArgument(
        f"audit_stability: input_metric {metric} has no known neighbors; use one of {', '.join(_ROW_METRICS + _NUMBER_METRICS)}"
    )
