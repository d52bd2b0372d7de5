"""Replay of stability witnesses: both inputs are run again, and their outputs compared with the map
again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from dpwitness.auditors.functions.stability.audit import map_values
from dpwitness.auditors.functions.stability.conclude import concluded
from dpwitness.auditors.functions.stability.declared_targets import (
    DeclaredTransformation,
    declared_transformation,
)
from dpwitness.auditors.functions.stability.exact_numbers import Exact, Incomparable
from dpwitness.auditors.functions.stability.inputs.spaces import space_of
from dpwitness.auditors.functions.stability.kept_noise import is_kept
from dpwitness.auditors.functions.stability.metrics import metric_named
from dpwitness.auditors.functions.stability.outcomes import LAW, Comparison, applier
from dpwitness.auditors.functions.stability.randomized import STATE, try_pairs
from dpwitness.auditors.functions.stability.result import (
    StabilityResult,
    format_number,
    read_number,
)
from dpwitness.auditors.functions.stability.search import Found, Search
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.auditors.workers.trust import Trust
from dpwitness.core.values.json_codec import from_jsonable
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.mechanisms.wrappers.programs.declared import note_on_library
from dpwitness.mechanisms.wrappers.programs.target import Target


def replay_pair(raw: Json, mechanism: Any, trust: Trust, name: str) -> StabilityResult:
    """Run the inputs of a stability witness again. Raise InvalidArgument if they are not in the
    space at the recorded distance.
    """
    begin = time.monotonic()
    transformation = (
        declared_transformation(mechanism) if isinstance(mechanism, Target) else mechanism
    )
    if not callable(transformation) and not isinstance(transformation, DeclaredTransformation):
        raise InvalidArgument(
            f"replay: target must be a function, got {type(transformation).__name__}"
        )
    first, second = (
        from_jsonable(each, f"inputs[{i}]", trust.resolve_class)
        for i, each in enumerate(raw["inputs"])
    )
    d_in = read_number(raw["d_in"])
    _check_inputs(raw, first, second, d_in)
    stability_map, notes = _recorded_map(raw, transformation, trust)
    bounds, skipped = map_values(stability_map, [d_in])
    search = Search(
        applier(transformation),
        Comparison(metric_named(raw["output_metric"], "output_metric", "replay"), bounds),
        math.inf,
    )
    law = None
    if raw["finding"] == LAW:
        seen, law, problem = try_pairs(search, [(first, second, d_in)], np.random.default_rng())
        search.pairs = 1
    else:
        seen, problem = _run_twice(search, first, second, d_in)
        if seen is not None and is_kept(seen, search.apply, search.comparison):
            seen, problem = None, STATE
    fields: dict[str, Any] = {
        "name": mechanism.name if isinstance(mechanism, Target) else name,
        "skipped": skipped,
        "input_metric": raw["input_metric"],
        "output_metric": raw["output_metric"],
        "space": raw["space"],
        "seed": raw["seed"],
        "audited": (d_in,),
        "function": mechanism,
        "stability_map": stability_map,
        "randomized": raw["finding"] == LAW,
        "law": law,
    }
    result = concluded(
        seen,
        problem,
        search,
        raw["verdict"] != "INCONCLUSIVE",
        time.monotonic() - begin,
        fields,
        notes,
    )
    # a replay does not confirm that the library claims the map
    if raw["verdict"] == "SUSPECT" and result.verdict is Verdict.VIOLATED:
        return replace(result, verdict=Verdict.SUSPECT)
    return result


def _run_twice(search: Search, first: Any, second: Any, d_in: Any) -> tuple[Found | None, str]:
    """Return what two runs of both inputs show, and why they show nothing certain; an empty text if
    they agree.
    """
    outcomes = [search.apply([first, second]) for _ in range(2)]
    found = [search.comparison.excess(left, right, d_in) for left, right in outcomes]
    search.inputs, search.pairs, search.incomparable = (
        2,
        1,
        int(found[0] is None and bool(search.comparison.incomparable)),
    )
    if (found[0] is None) is not (found[1] is None) or (
        found[0] and found[1] and found[0].measured != found[1].measured
    ):
        return (
            None,
            "two runs on one input have different outcomes: the transformation must be "
            "deterministic",
        )
    return None if found[0] is None else Found(
        first, second, d_in, tuple(outcomes[0]), found[0]
    ), ""


def _check_inputs(raw: Json, first: Any, second: Any, d_in: Exact | None) -> None:
    """Raise InvalidArgument unless the inputs lie in the recorded space, at most at the recorded
    distance.
    """
    metric = metric_named(raw["input_metric"], "input_metric", "replay")
    if raw["space"] is not None:
        space = space_of(raw["space"], "space")
        for i, dataset in enumerate((first, second)):
            if not space.contains(dataset):
                raise InvalidArgument(f"inputs[{i}] must belong to the recorded space")
    try:
        distance = metric.measure(first, second, strict=True)
    except Incomparable as error:
        raise InvalidArgument(
            f"inputs must have a {raw['input_metric']} distance: {error}"
        ) from None
    if d_in is None or not 0 < d_in < math.inf or distance > d_in**metric.root:
        found = format_number(distance)
        raise InvalidArgument(
            f"inputs must be at most d_in = {raw['d_in']} apart ({raw['input_metric']}), "
            f"they are {found} apart"
        )


def _recorded_map(
    raw: Json, transformation: Any, trust: Trust
) -> tuple[Callable[[Any], Any], tuple[str, ...]]:
    """Return the map of the declaration, or else the recorded function, or else the recorded value,
    with a note.
    """
    if isinstance(transformation, DeclaredTransformation):
        note = note_on_library(transformation.target)
        return transformation.stability_map, (note,) if note else ()
    if raw["map"] is not None:
        found = trust.plan(raw["map"], "map").load()
        if not callable(found):
            raise InvalidArgument(f"map must name a function, got {raw['map']['target']}")
        return found, ()
    bound = read_number(raw["bound"])
    return lambda _: bound, (
        f"the map is not importable: the recorded value {raw['bound']} was used",
    )
