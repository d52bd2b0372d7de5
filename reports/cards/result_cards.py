"""Facts on the cards of traces, canaries, checks, and white-box, sensitivity and
utility results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.core.values.json_reader import Json
from dpwitness.reports.phrasing.facts import (
    Card,
    Entry,
    Facts,
    enclosure,
    pair_facts,
    relation_fact,
    run_facts,
)
from dpwitness.reports.phrasing.wording import (
    code,
    count,
    dataset,
    escaped_markdown,
    figure,
    number,
    table,
)


def _white_box_facts(entry: Entry) -> Facts:
    result = entry.result
    symbol = result.get("parameter", "epsilon")
    facts = [("claim", code(result.get("claim"))), relation_fact(result)]
    if result.get("verdict") != Verdict.ERROR.value:
        facts += [(symbol, f"in {enclosure(result)}, both orders of the pair")]
        if symbol != "epsilon":
            ends = (figure(result.get(f"epsilon_{end}"), 6) for end in ("lower", "upper"))
            facts.append(("epsilon at delta = 0", f"in [{', '.join(ends)}]"))
        facts += [
            ("how it was had", escaped_markdown(result.get("route", ""))),
            ("evidence", escaped_markdown(result.get("evidence", ""))),
            ("what the lower end rests on", escaped_markdown(result.get("lower_end", ""))),
            ("what the upper end rests on", escaped_markdown(result.get("upper_end", ""))),
            ("density against sampler", escaped_markdown(result.get("mismatch") or "")),
            ("event", escaped_markdown(result.get("description") or "")),
            (
                "how sure",
                f"confidence {figure(result.get('confidence'), 12)} for all sampled quantities",
            ),
        ]
    return [
        *facts,
        ("budget", f"{count(result.get('trials'))} runs of the mechanism"),
        *pair_facts(result),
        *run_facts(result),
    ]


def _sensitivity_facts(entry: Entry) -> Facts:
    result = entry.result
    facts = [
        (
            "claimed bound",
            f"{figure(result.get('bound'), 8)}, norm {escaped_markdown(result.get('norm', ''))}",
        )
    ]
    if result.get("verdict") != Verdict.ERROR.value:
        ends = (figure(result.get(f"ratio_{end}"), 8) for end in ("lower", "upper"))
        sure = (
            "the solver's error radii"
            if result.get("rigorous")
            else "values taken as exact to 1e-9"
        )
        facts += [
            (
                "largest ratio to the bound",
                f"{figure(result.get('ratio'), 8)}, in [{', '.join(ends)}] ({sure})",
            ),
            *pair_facts(result),
        ]
    skipped = f", {count(result['skipped'])} of them skipped" if result.get("skipped") else ""
    return [
        *facts,
        ("budget", f"{count(result.get('evaluations'))} pairs evaluated{skipped}"),
        *run_facts(result),
    ]


def _stability_facts(entry: Entry) -> Facts:
    result = entry.result
    distances = ", ".join(figure(d) for d in result.get("audited") or [])
    facts = [
        (
            "metrics",
            f"{escaped_markdown(result.get('input_metric', ''))} to "
            f"{escaped_markdown(result.get('output_metric', ''))}",
        ),
        ("audited distances", distances),
    ]
    if result.get("finding"):
        sides = [_format_outcome(each) for each in result.get("outputs") or []]
        facts += [
            (
                "the map allows",
                f"{figure(result.get('bound'), 17)} at d_in = {figure(result.get('d_in'))}",
            ),
            (
                "the outputs are apart by",
                figure(result.get("distance"), 17)
                if result.get("measured_exact")
                else "an error, no number",
            ),
            *((f"output {i}", side) for i, side in enumerate(sides)),
            *pair_facts(result),
        ]
    facts.append(("largest ratio to the map", figure(result.get("ratio"), 8)))
    return [
        *facts,
        ("budget", f"{count(result.get('compared'))} pairs of {count(result.get('runs'))} inputs"),
        *run_facts(result),
    ]


def _format_outcome(outcome: Json) -> str:
    """Format an output, or the error in its place."""
    if "error" in outcome:
        return (
            f"{escaped_markdown(str(outcome['error']))}: {code(str(outcome.get('text', ''))[:300])}"
        )
    return code(dataset(outcome.get("value", outcome.get("text"))))


def _accountant_facts(entry: Entry) -> Facts:
    result, loosest = entry.result, entry.result.get("loosest") or {}
    facts = [("mechanism", escaped_markdown(str(result.get("mechanism", ""))))]
    if result.get("verdict") != Verdict.ERROR.value:
        facts += [
            ("parameters", _format_point(result.get("at"))),
            (f"{result.get('returns')} of the accountant", figure(result.get("figure"), 17)),
            ("exact figure, a rigorous lower bound", figure(result.get("exact"), 17)),
        ]
    if loosest:
        both = f"{figure(loosest.get('figure'), 8)}, exact {figure(loosest.get('exact'), 8)}"
        facts.append(("loosest figure", f"{both} at {_format_point(loosest.get('at'))}"))
    failed = f", {count(result['failed'])} calls failed" if result.get("failed") else ""
    return [
        *facts,
        ("budget", f"{count(result.get('compared'))} figures compared{failed}"),
        *run_facts(result),
    ]


def _format_point(at: object) -> str:
    """Format the parameters of a figure."""
    return (
        code(", ".join(f"{key} = {value}" for key, value in at.items()))
        if isinstance(at, Mapping)
        else ""
    )


def _metamorphic_facts(entry: Entry) -> Facts:
    result = entry.result
    facts = [("relation", escaped_markdown(str(result.get("claim", ""))))]
    if result.get("finding"):
        facts += [
            ("finding", escaped_markdown(str(result["finding"]))),
            *(
                (f"{side} {i}", code(dataset(each)))
                for side, field in (("input", "case"), ("output", "outputs"))
                for i, each in enumerate(result.get(field) or [])
            ),
            (
                "probability of a false finding",
                figure(result.get("error"), 3) if result.get("error") else "0: an exact comparison",
            ),
        ]
    return [*facts, ("budget", f"{count(result.get('tried'))} cases"), *run_facts(result)]


def _utility_facts(entry: Entry) -> Facts:
    result = entry.result
    scaling = result.get("exponent") is not None
    what = "slope of log error" if scaling else "measured"
    limits = " and ".join(figure(result.get(end), 6) for end in ("lower", "upper"))
    sure = f"one-sided limits at confidence {figure(result.get('confidence'), 12)} each"
    if scaling and (result.get("points") or [{}])[0].get("lower") in (None, "nan"):
        sure = "two standard errors either way, not a test at a stated error"
    points = [
        f"{figure(p['error'])} ± {figure(p['standard_error'], 2)} at {figure(p['value'], 8)}"
        for p in result.get("points") or []
    ]
    facts = [("claim", escaped_markdown(result.get("claim", "")))]
    if result.get("verdict") != Verdict.ERROR.value:
        facts += [
            (
                what,
                f"{figure(result.get('estimate'), 6)}, standard error "
                f"{figure(result.get('standard_error'), 3)}",
            ),
            ("limits", f"{limits}: {sure}"),
            ("points", "; ".join(points)),
        ]
    return [
        *facts,
        ("budget", f"{count(result.get('runs'))} runs" + (" at each point" if scaling else "")),
        *run_facts(result),
    ]


def _trace_facts(entry: Entry) -> Facts:
    result = entry.result
    symbol = result.get("parameter", "epsilon")
    facts = [
        ("claim", code(result.get("claim"))),
        relation_fact(result),
        *(("finding", _format_finding(each)) for each in result.get("findings") or []),
    ]
    if result.get("verdict") != Verdict.ERROR.value:
        loss, charged, audit = (result.get(key) for key in ("loss", "charged", "audit"))
        facts += [
            ("doubt", escaped_markdown(result.get("doubt") or "")),
            (
                "loss of the calls together",
                "unknown for some calls"
                if loss == "nan"
                else f"{symbol} = {figure(loss, 6)}, for this pair and this trace",
            ),
            (
                "charged to accountants",
                f"epsilon = {figure(charged, 6)}" if charged != "nan" else "",
            ),
            ("audit", escaped_markdown(audit["headline"]) if audit else ""),
        ]
    return [
        *facts,
        ("budget", f"{count(result.get('runs'))} runs for the trace"),
        *pair_facts(result),
        *run_facts(result),
    ]


def _canary_facts(entry: Entry) -> Facts:
    result = entry.result
    symbol, delta = result.get("parameter", "epsilon"), result.get("delta")
    at = f"at delta = {figure(delta)}"
    gaussian = result.get("gaussian_lower")
    right, guesses = (
        number(result.get("guessed_right")) or 0.0,
        number(result.get("guesses")) or 1.0,
    )
    chosen = (
        "fixed before the scores were seen"
        if result.get("fixed")
        else "chosen from the scores and the revealed coins"
    )
    facts = [
        ("claim", code(result.get("claim"))),
        ("certified", f"{symbol} > {figure(result.get('parameter_lower'), 6)}"),
        (
            "as an epsilon",
            f"epsilon > {figure(result.get('epsilon_lower'), 6)} {at}"
            if symbol != "epsilon"
            else "",
        ),
        (
            "if the curve is Gaussian",
            f"epsilon > {figure(gaussian, 6)} {at}" if gaussian not in (None, "nan") else "",
        ),
        (
            "how sure",
            f"confidence {figure(result.get('confidence'), 12)}; p-value "
            f"{figure(result.get('p_value'), 3)}",
        ),
        (
            "guesses",
            f"{count(result.get('right'))} of {count(result.get('guesses'))} right "
            f"({right / guesses:.1%}); {chosen}",
        ),
        ("theorem", escaped_markdown(result.get("method", ""))),
        (
            "would have been found",
            f"epsilon = {figure(result.get('detectable'))} {at}, with probability 0.9, "
            "isolated canaries",
        ),
    ]
    budget = (
        f"{count(result.get('canaries'))} canaries, {count(result.get('included'))} included; "
        f"runs: {count(result.get('runs'))}"
    )
    return [*facts, ("budget", budget), *run_facts(result)]


def _format_finding(finding: Json) -> str:
    where = f" at {code(finding['where'])}" if finding.get("where") else ""
    return f"**{escaped_markdown(finding['kind'])}**: {escaped_markdown(finding['told'])}{where}"


def calls_table(result: Json) -> list[str]:
    """Return the calls of a trace as a markdown table, one row per primitive and source line."""
    header = [
        "primitive",
        "law",
        "calls",
        "input on D1 / D0",
        "distance",
        "declared",
        "scale",
        "epsilon",
        "line",
    ]
    rows = []
    for call in result.get("calls") or []:
        numbers = [
            "" if call[key] == "nan" else figure(call[key], 6)
            for key in ("distance", "declared", "scale", "epsilon")
        ]
        moved = "noise moves" if call.get("aligned") else escaped_markdown(call["input"])
        rows.append(
            [
                code(call["primitive"]),
                escaped_markdown(call["law"]),
                count(call["times"]),
                moved,
                *numbers,
                code(call["where"] or "-"),
            ]
        )
    return table(header, rows) if rows else []


def _check_facts(entry: Entry) -> Facts:
    result = entry.result
    found = Counter(str(finding.get("status")) for finding in result.get("findings") or [])
    description = ", ".join(f"{n} {status}" for status, n in found.items())
    return [
        ("claim", code(result.get("claim") or "")),
        ("checks", escaped_markdown(description)),
        *run_facts(result),
    ]


def checks_table(result: Json) -> list[str]:
    """Return the checks of a target as a markdown table, one row per check."""
    rows = [
        (code(f["check"]), escaped_markdown(f["status"]), escaped_markdown(f["reason"]))
        for f in result.get("findings") or []
    ]
    return table(["check", "status", "reason"], rows) if rows else []


# kind -> function that returns the table below the facts, as lines of markdown
TABLES: dict[str, Callable[[Json], list[str]]] = {"trace": calls_table, "checks": checks_table}

_UNPROVED = "no change is needed on this evidence, which does not prove the claim"

# kind -> (function that returns the facts, advice by verdict where it differs from the advice for a
# black-box audit)
CARDS: dict[str, tuple[Card, Mapping[str, str]]] = {
    "trace": (
        _trace_facts,
        {
            Verdict.INCONCLUSIVE.value: (
                "look at the lines that the findings name: two runs show them, but they are not "
                "certified. Without findings, the recorded noise does not account for the outputs: "
                "`dpwitness audit` tests them."
            ),
            Verdict.NOT_REFUTED.value: (
                "no change is needed on this evidence, which is one pair of runs and not a proof "
                "for others."
            ),
        },
    ),
    "canaries": (
        _canary_facts,
        {
            Verdict.VIOLATED.value: (
                "the training leaks more than claimed, if inclusion was as assumed below: check "
                "sampling, clipping, noise and accounting; the witness holds the counts."
            ),
            Verdict.NOT_REFUTED.value: f"{_UNPROVED}: one run certifies a part of epsilon. "
            "`dpwitness plan --canaries` says which part; more canaries or runs find smaller "
            "violations.",
        },
    ),
    "checks": (
        _check_facts,
        {Verdict.VIOLATED.value: "look at the failed checks, each with its reason."},
    ),
    "white box": (
        _white_box_facts,
        {
            Verdict.CERTIFIED.value: (
                "no change is needed for this pair; other pairs were not examined: `--search` "
                "looks for worse ones."
            ),
            Verdict.SUPPORTED.value: (
                "no change is needed for this pair on this evidence, which is numerical or "
                "assumed, not proved."
            ),
            Verdict.INCONCLUSIVE.value: (
                "the claim lies inside the enclosure: more trials narrow it, where outputs were "
                "sampled."
            ),
        },
    ),
    "sensitivity": (
        _sensitivity_facts,
        {
            Verdict.VIOLATED.value: "noise scaled to this bound is too small: "
            "raise it at least by the ratio below, or change the function.",
            Verdict.NOT_REFUTED.value: (
                f"{_UNPROVED}; a ratio near 1 shows that the bound is tight."
            ),
        },
    ),
    "stability": (
        _stability_facts,
        {
            Verdict.VIOLATED.value: (
                "noise scaled to this map is too small: raise the map at least by the ratio below, "
                "or repair the transformation."
            ),
            Verdict.NOT_REFUTED.value: f"{_UNPROVED}; a ratio near 1 shows that the map is tight.",
            Verdict.INCONCLUSIVE.value: (
                "decide whether errors are visible, and round the map up: see the notes."
            ),
        },
    ),
    "accountant": (
        _accountant_facts,
        {
            Verdict.VIOLATED.value: (
                "noise calibrated with this figure is too small: repair the accountant, and "
                "compute the figures of past releases again."
            ),
            Verdict.NOT_REFUTED.value: f"{_UNPROVED}: more time searches more parameters.",
        },
    ),
    "metamorphic": (
        _metamorphic_facts,
        {
            Verdict.VIOLATED.value: "repair the function, or do not claim this relation.",
            Verdict.NOT_REFUTED.value: f"{_UNPROVED}.",
        },
    ),
    "utility": (
        _utility_facts,
        {
            Verdict.VIOLATED.value: (
                "the error is larger than claimed: promise less, or repair the mechanism."
            ),
            Verdict.NOT_REFUTED.value: "no change is needed on this evidence.",
            Verdict.INCONCLUSIVE.value: (
                "the mean seems to grow too fast, at no stated error: state its spread, or test "
                "the median."
            ),
        },
    ),
}
