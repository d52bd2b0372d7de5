"""Kinds of audits of functions: stability, accountants and metamorphic relations. Facts of their
cards, checks of written results, and replay of their witnesses, whose inputs are run again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dpwitness.auditors.functions.accountant_figures import GAME
from dpwitness.auditors.functions.accountant_search import question_of
from dpwitness.auditors.functions.accountants import AccountantResult, compare_at
from dpwitness.auditors.functions.declared_targets import (
    DeclaredAccountant,
    DeclaredRelations,
    DeclaredTransformation,
    library_notes,
)
from dpwitness.auditors.functions.metamorphic import RELATIONS, MetamorphicResult, check_relation
from dpwitness.auditors.functions.stability import (
    StabilityResult,
    concluded,
    format_number,
    map_values,
    read_number,
    read_outcome,
    written,
)
from dpwitness.auditors.functions.stability_laws import STATE, LawTest, is_kept, try_pairs
from dpwitness.auditors.functions.stability_metrics import Incomparable, metric_named
from dpwitness.auditors.functions.stability_search import (
    EXCEEDS,
    INCOMPARABLE,
    LAW,
    ROUNDING,
    SEVERITY,
    WITHIN,
    Comparisons,
    compared,
)
from dpwitness.auditors.witnesses.kinds import (
    Fact,
    Measure,
    Recomputed,
    figures,
    function_kind,
    has_finding,
    is_measured,
    line,
    pair_facts,
    raise_contradiction,
)
from dpwitness.auditors.witnesses.replay import Replay, RunOptions
from dpwitness.auditors.witnesses.result import named
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.auditors.witnesses.witness_reader import EXTENDED, FUNCTION
from dpwitness.auditors.workers.trust import Trust
from dpwitness.core.domains.spaces import space_of
from dpwitness.core.values.json_codec import from_jsonable
from dpwitness.core.values.json_reader import (
    Json,
    anything,
    items,
    listing,
    nullable,
    number,
    one_of,
    text,
)
from dpwitness.core.values.validation import (
    InvalidArgument,
    require_callable,
    require_one_of,
    require_that,
)
from dpwitness.core.values.wording import count, dataset, figure
from dpwitness.mechanisms.wrappers.programs.declared import ABORTS, RAISES
from dpwitness.mechanisms.wrappers.programs.target import Target

_UNPROVED = "no change is needed on this evidence, which does not prove the claim"

# -- stability


def _describe_output(outcome: Json) -> str:
    """Return an output, or the error in its place, in short."""
    if "error" in outcome:
        return f"{outcome['error']}: {str(outcome.get('text', ''))[:300]}"
    return dataset(outcome.get("value", outcome.get("text")))


_STABILITY_FACTS = (
    line("metrics", lambda r: f"{r.get('input_metric', '')} to {r.get('output_metric', '')}"),
    line("audited distances", lambda r: ", ".join(map(figure, r.get("audited") or []))),
    line(
        "the map allows",
        lambda r: f"{figure(r.get('bound'), 17)} at d_in = {figure(r.get('d_in'))}",
        has_finding,
    ),
    line(
        "the outputs are apart by",
        lambda r: (
            figure(r.get("distance"), 17) if r.get("measured_exact") else "an error, no number"
        ),
        has_finding,
    ),
    lambda r: [
        Fact(f"output {i}", _describe_output(each)) for i, each in enumerate(r.get("outputs") or [])
    ],
    pair_facts,
    line("largest ratio to the map", lambda r: figure(r.get("ratio"), 8)),
    line("budget", lambda r: f"{count(r.get('compared'))} pairs of {count(r.get('runs'))} inputs"),
)


_VERDICTS = {
    EXCEEDS: ("VIOLATED", "SUSPECT"),
    LAW: ("VIOLATED", "SUSPECT"),
    ROUNDING: ("INCONCLUSIVE",),
    RAISES: ("VIOLATED", "SUSPECT", "INCONCLUSIVE"),
    ABORTS: ("VIOLATED", "SUSPECT", "INCONCLUSIVE"),
    "": ("NOT_REFUTED", "ERROR"),
}


def _stability_verdicts(result: Json) -> Sequence[str]:
    """Return the verdicts that a finding may have."""
    owner = f"result {result.get('name', '')!r}"
    return _VERDICTS[require_one_of("finding", str(result.get("finding")), _VERDICTS, owner)]


def _recompute_stability(result: Json) -> Recomputed:
    """Check that finding and distance follow from the outputs."""
    finding, outputs = result["finding"], result.get("outputs") or []
    if not finding or any("text" in each and "error" not in each for each in outputs):
        return Recomputed()
    sides = [read_outcome(each) for each in outputs]
    bound, metric = (
        read_number(result.get("bound_exact")),
        metric_named(result.get("output_metric"), "output_metric", "result"),
    )
    if bound is None or len(sides) != 2:
        raise_contradiction(result, "it needs two outputs and bound_exact")
    found = compared(metric, bound, sides[0], sides[1])
    kind = found.kind if found.kind in _VERDICTS else WITHIN
    if finding == LAW and kind == EXCEEDS and LawTest.from_json(result.get("law") or {}).refuted:
        kind = LAW
    right = (kind, written(found.measured) if kind else None)
    recorded = (finding, result.get("measured_exact"))
    if right != recorded:
        raise_contradiction(result, f"finding and measured_exact must be {right}, got {recorded}")
    return Recomputed(finding in (EXCEEDS, LAW))


# -- accountants


def _describe_point(at: object) -> str:
    """Return the parameters of a figure as text."""
    return ", ".join(
        f"{key} = {value}" for key, value in (at.items() if isinstance(at, Mapping) else ())
    )


_ACCOUNTANT_FACTS = (
    line("mechanism", lambda r: r.get("mechanism", "")),
    line("parameters", lambda r: _describe_point(r.get("at")), is_measured, code=True),
    line(
        "figure of the accountant",
        lambda r: f"{r.get('returns')} = {figure(r.get('figure'), 17)}",
        is_measured,
    ),
    line("exact figure, a rigorous lower bound", lambda r: figure(r.get("exact"), 17), is_measured),
    line(
        "loosest figure",
        lambda r: "{}, exact {} at {}".format(
            *figures(r["loosest"], 8, "figure", "exact"), _describe_point(r["loosest"].get("at"))
        ),
        lambda r: r.get("loosest"),
    ),
    line(
        "budget",
        lambda r: (
            f"{count(r.get('compared'))} figures compared"
            + (f", {count(r['failed'])} calls failed" if r.get("failed") else "")
        ),
    ),
)


def _recompute_accountant(result: Json) -> Recomputed:
    """Check by exact arithmetic whether the figure is too low."""
    verdict = result["verdict"]
    if (
        verdict == "ERROR"
        or result.get("mechanism") == GAME
        or not isinstance(result.get("figure"), int | float)
    ):
        return Recomputed()
    question, _ = question_of(
        lambda: math.nan, result.get("mechanism"), result.get("returns"), result.get("parameters")
    )
    at = result.get("at") or {}
    violated = verdict in ("VIOLATED", "SUSPECT")
    if question.violated(float(result["figure"]), at) is not violated:
        raise_contradiction(
            result, f"verdict {verdict} contradicts the figure {result['figure']!r}"
        )
    return Recomputed(violated)


# -- metamorphic relations

_METAMORPHIC_FACTS = (
    line("relation", lambda r: r.get("claim", "")),
    line("finding", lambda r: r["finding"], has_finding),
    lambda r: [
        Fact(f"{side} {i}", dataset(each), code=True)
        for side, field in (("input", "case"), ("output", "outputs"))
        for i, each in enumerate(r.get(field) or [])
    ],
    line("probability of a false finding", lambda r: "0: an exact comparison", has_finding),
    line("budget", lambda r: f"{count(r.get('tried'))} cases"),
)


# -- replay


def _rerun_figure(case: Replay, mechanism: Any, options: RunOptions) -> AccountantResult:
    """Call the accountant of a witness at the recorded parameters again, and compare the figure
    with the exact one again.
    """
    raw, name = case.raw, case.mechanism_name(mechanism)
    if isinstance(mechanism, Target):
        function: Any = DeclaredAccountant.of(mechanism)
    else:
        function = require_callable("target", mechanism, "replay")
    question = raw["mechanism"], raw["returns"], raw["parameters"]
    return compare_at(function, *question, raw["at"], raw["seed"], name)


def _rerun_relation(case: Replay, mechanism: Any, options: RunOptions) -> MetamorphicResult:
    """Run the relation of a witness again, on the recorded case."""
    raw, relation = case.raw, case.raw["relation"]
    require_one_of("relation", relation, RELATIONS, "replay")
    inputs = tuple(
        from_jsonable(item, f"case[{i}]", case.trust.resolve_class)
        for i, item in enumerate(raw["case"])
    )
    subject = mechanism
    if isinstance(mechanism, Target):
        found, key = DeclaredRelations.of(mechanism), RELATIONS[relation].subject
        require_that(
            key in found.declaration,
            f"{mechanism.name} must declare {key!r} in TARGETS, as it did when the witness was "
            "written",
            "replay",
        )
        subject = found.subject(key)
    name = case.mechanism_name(mechanism)
    return check_relation(relation, subject, [inputs], raw.get("output_metric"), options.seed, name)


def _rerun_pair(case: Replay, mechanism: Any, options: RunOptions) -> StabilityResult:
    """Run the inputs of a stability witness again. Raise InvalidArgument if they are not in the
    space at the recorded distance.
    """
    raw, name, begin = case.raw, case.mechanism_name(mechanism), time.monotonic()
    if isinstance(mechanism, Target):
        transformation, name = DeclaredTransformation.of(mechanism), mechanism.name
    else:
        transformation = require_callable("target", mechanism, "replay")
    first, second = (
        from_jsonable(each, f"inputs[{i}]", case.trust.resolve_class)
        for i, each in enumerate(raw["inputs"])
    )
    d_in = read_number(raw["d_in"])
    _require_neighbors(raw, first, second, d_in)
    stability_map, notes = _recorded_map(raw, transformation, case.trust)
    bounds, skipped = map_values(stability_map, [d_in])
    tested = Comparisons(
        transformation, metric_named(raw["output_metric"], "output_metric", "replay"), bounds
    )
    law = None
    if raw["finding"] == LAW:
        seen, law, problem = try_pairs(tested, [(first, second, d_in)], np.random.default_rng())
    else:
        runs = [tested.shown(first, second, d_in) for _ in range(2)]
        seen, again = (run if run.excess.kind in SEVERITY else None for run in runs)
        tested.inputs, problem = 2, ""
        if runs[0].excess.kind == INCOMPARABLE:
            tested.count(runs[0].excess)
        if (seen and seen.excess) != (again and again.excess):
            problem = (
                "two runs on one input have different outcomes: the transformation must be "
                "deterministic"
            )
        elif seen is not None and is_kept(seen, tested):
            problem = STATE
    tested.pairs = 1
    result = concluded(
        seen,
        problem,
        tested,
        raw["verdict"] != "INCONCLUSIVE",
        time.monotonic() - begin,
        {
            "name": name,
            "skipped": skipped,
            **{key: raw[key] for key in ("input_metric", "output_metric", "space", "seed")},
            "audited": (d_in,),
            "target": named(mechanism),
            "subject": mechanism,
            "stability_map": stability_map,
            "randomized": raw["finding"] == LAW,
            "law": law,
        },
        notes,
    )
    # a replay does not confirm that the library claims the map
    if raw["verdict"] == "SUSPECT" and result.verdict is Verdict.VIOLATED:
        result = replace(result, verdict=Verdict.SUSPECT)
    return result


def _require_neighbors(raw: Json, first: Any, second: Any, d_in: Any) -> None:
    """Raise InvalidArgument unless the inputs are in the recorded space, at most `d_in` apart."""
    if raw["space"] is not None:
        space = space_of(raw["space"], "space")
        for i, dataset in enumerate((first, second)):
            require_that(space.contains(dataset), f"inputs[{i}] must belong to the recorded space")
    metric = metric_named(raw["input_metric"], "input_metric", "replay")
    try:
        distance = metric.measure(first, second, strict=True)
    except Incomparable as error:
        raise InvalidArgument(
            f"inputs must have a {raw['input_metric']} distance: {error}"
        ) from None
    require_that(
        d_in is not None and 0 < d_in < math.inf and distance <= d_in**metric.root,
        f"inputs must be at most d_in = {raw['d_in']} apart ({raw['input_metric']}), "
        f"they are {format_number(distance)} apart",
    )


def _recorded_map(
    raw: Json, transformation: Any, trust: Trust
) -> tuple[Callable[[Any], Any], tuple[str, ...]]:
    """Return the map of the declaration, or else the recorded function, or else the recorded value,
    with a note.
    """
    if isinstance(transformation, DeclaredTransformation):
        return transformation.stability_map, library_notes(transformation.target)
    if raw["map"] is not None:
        return require_callable("map", trust.plan(raw["map"], "map").load()), ()
    bound = read_number(raw["bound"])
    return lambda _: bound, (
        f"the map is not importable: the recorded value {raw['bound']} was used",
    )


_FUNCTION_KIND: dict[str, Any] = {"draws": False, "again": "on the same inputs"}

STABILITY = function_kind(
    "stability",
    _STABILITY_FACTS,
    _rerun_pair,
    "replay of a stability witness: both inputs were run again",
    advice={
        Verdict.VIOLATED.value: (
            "noise scaled to this map is too small: raise the map at least by the ratio below, or "
            "repair the transformation."
        ),
        Verdict.NOT_REFUTED.value: f"{_UNPROVED}; a ratio near 1 shows that the map is tight.",
        Verdict.INCONCLUSIVE.value: (
            "decide whether errors are visible, and round the map up: see the notes."
        ),
    },
    untested=lambda results: [
        "Inputs other than those that the search of a stability audit tried."
    ],
    topic="sensitivity",
    rule="STABILITY",
    measure=Measure("ratio", "ratio", "ratio", "ratio", "{ratio} of the map"),
    verdicts=_stability_verdicts,
    recompute=_recompute_stability,
    witness=(
        {},
        {
            "finding": one_of(EXCEEDS, LAW, ROUNDING, RAISES, ABORTS),
            "map": nullable(FUNCTION),
            "space": nullable(items(anything)),
            "input_metric": text(400, empty=False),
            "output_metric": text(400, empty=False),
            "d_in": text(1000, empty=False),
            "bound": text(1000, empty=False),
            "inputs": listing(anything, 2, 2),
            "outputs": listing(items(anything), 2, 2),
            "verdict": one_of("VIOLATED", "SUSPECT", "INCONCLUSIVE"),
        },
    ),
    **_FUNCTION_KIND,
)
ACCOUNTANT = function_kind(
    "accountant",
    _ACCOUNTANT_FACTS,
    _rerun_figure,
    "replay of an accountant witness: the figure was computed again",
    advice={
        Verdict.VIOLATED.value: (
            "noise calibrated with this figure is too small: repair the accountant, and compute "
            "the figures of past releases again."
        ),
        Verdict.NOT_REFUTED.value: f"{_UNPROVED}: more time searches more parameters.",
    },
    untested=lambda results: ["Parameters of accountants other than those that the search tried."],
    topic="accounting",
    rule="ACCOUNTANT",
    measure=Measure("{returns}", "figure", "figure", "figure", "{figure}, exact {exact}"),
    recompute=_recompute_accountant,
    witness=(
        {},
        {
            "mechanism": text(100, empty=False),
            "returns": text(20, empty=False),
            "parameters": items(text(200)),
            "at": items(number()),
            "figure": EXTENDED,
            "exact": EXTENDED,
        },
    ),
    **_FUNCTION_KIND,
)
METAMORPHIC = function_kind(
    "metamorphic",
    _METAMORPHIC_FACTS,
    _rerun_relation,
    "replay of a metamorphic witness: the recorded case was run again",
    advice={
        Verdict.VIOLATED.value: "repair the function, or do not claim this relation.",
        Verdict.NOT_REFUTED.value: f"{_UNPROVED}.",
    },
    untested=lambda results: [
        "Inputs of metamorphic relations other than those that were tried; leaks that keep to the "
        "relations."
    ],
    topic="accounting",
    rule="METAMORPHIC",
    witness=(
        {"output_metric": text(400)},
        {
            "relation": text(100, empty=False),
            "case": listing(anything, 1, 2),
            "finding": text(20_000),
            "error": number(lambda v: 0 <= v < 1, "a number in [0, 1)"),
        },
    ),
    **_FUNCTION_KIND,
)
