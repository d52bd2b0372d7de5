"""Check of a written result: its distance follows from its outputs, and its verdict from distance and bound."""

from __future__ import annotations

from dpwitness.auditors.stability.exact_numbers import Incomparable
from dpwitness.auditors.stability.metrics import metric_named
from dpwitness.auditors.stability.outcomes import ABORTS, EXCEEDS, RAISES, ROUNDING, Comparison, Failure
from dpwitness.auditors.stability.result import read_number, written
from dpwitness.mechanisms.core.json_codec import from_jsonable
from dpwitness.mechanisms.core.json_reader import Json
from dpwitness.mechanisms.core.validation import InvalidArgument

_VERDICTS = {
    EXCEEDS: ("VIOLATED", "SUSPECT"),
    ROUNDING: ("INCONCLUSIVE",),
    RAISES: ("VIOLATED", "SUSPECT", "INCONCLUSIVE"),
    ABORTS: ("VIOLATED", "SUSPECT", "INCONCLUSIVE"),
    "": ("NOT_REFUTED", "ERROR"),
}


def recheck(result: Json) -> bool:
    """Return whether distance and verdict of a result in JSON follow from its outputs. Raise InvalidArgument if they contradict them."""
    finding, verdict, name = result.get("finding"), result["verdict"], result.get("name", "")
    if finding not in _VERDICTS:
        raise InvalidArgument(f"result {name!r}: finding must be one of {', '.join(_VERDICTS)}, got {finding!r}")
    if verdict not in _VERDICTS[finding]:
        raise InvalidArgument(f"result {name!r} is damaged or edited: verdict must be {' or '.join(_VERDICTS[finding])}, got {verdict}")
    outputs = result.get("outputs") or []
    if not finding or any("text" in each and "error" not in each for each in outputs):
        return False
    sides = [
        Failure(str(each["error"]), str(each.get("text", ""))) if "error" in each else from_jsonable(each.get("value"), "outputs")
        for each in outputs
    ]
    bound, metric = read_number(result.get("bound_exact")), metric_named(result.get("output_metric"), "output_metric", f"result {name!r}")
    if bound is None or len(sides) != 2:
        raise InvalidArgument(f"result {name!r} is damaged or edited: it needs two outputs and bound_exact")
    try:
        found = Comparison(metric, {1: bound}).excess(sides[0], sides[1], 1)
    except Incomparable:
        found = None
    right = (found.kind, written(found.measured)) if found else ("", None)
    if right != (finding, result.get("measured_exact")):
        recorded = (finding, result.get("measured_exact"))
        raise InvalidArgument(f"result {name!r} is damaged or edited: finding and measured_exact must be {right}, got {recorded}")
    return bool(finding == EXCEEDS)
