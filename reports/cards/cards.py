"""Card of one audit, in markdown: the verdict, the number, the confidence and the advice first,
then all facts.

The facts depend on the kind of result (``to_json()["kind"]``). `card_for` registers the facts of a
kind. A kind without registered facts shows its headline and its plain fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.core.values.json_reader import Json
from dpwitness.reports.cards.result_cards import CARDS, TABLES
from dpwitness.reports.phrasing.facts import (
    Card,
    Entry,
    Facts,
    _environment,
    again,
    causes_text,
    claim_of,
    enclosure,
    explanations,
    pair_facts,
    relation_fact,
    run_facts,
)
from dpwitness.reports.phrasing.summary import acceptance_text, error_of, violated_in_bits
from dpwitness.reports.phrasing.wording import (
    beyond,
    code,
    count,
    dataset,
    escaped_markdown,
    figure,
    item,
    number,
    table,
    verdict,
)

_MAX_TRACE_LINES = 6


def card_for(kind: str, advice: Mapping[str, str] | None = None) -> Callable[[Card], Card]:
    """Decorate a function that returns the facts of results of `kind`, and register the function.

    Parameters
    ----------
    kind : str
        Kind of result, ``to_json()["kind"]``.
    advice : mapping or None
        Next step by verdict, where it differs from the advice for a black-box audit.

    Returns
    -------
    callable
        Decorator that returns the function unchanged. The function takes an `Entry` and returns
        (label, markdown) pairs.
    """

    def register(function: Card) -> Card:
        _CARDS[kind] = function, advice or {}
        return function

    return register


def card(entry: Entry) -> list[str]:
    """Return the card of one audit as lines of markdown."""
    result = entry.result
    lines = [
        f'<a id="{entry.slug}"></a>',
        f"### {verdict(result.get('verdict'))}: {code(entry.name)}",
        "",
    ]
    if result.get("headline"):
        lines += [f"**{escaped_markdown(result['headline'])}**", ""]
    lines += [f"What to do: {what_to_do(entry)}", ""]
    if result.get("accepted"):
        lines += [f"Accepted {escaped_markdown(acceptance_text(result))}.", ""]
    if entry.witness_file:
        lines += [
            f"Witness: [{entry.witness_file}]({entry.witness_file}). Anyone can reproduce "
            f"this verdict, {again(result)}:",
            "",
            "```",
            f"dpwitness replay {entry.witness_file}",
            "```",
            "",
        ]
        if result.get("kind") != "canaries" and not (result.get("witness") or {}).get("target"):
            lines += [
                "The witness file names no mechanism, because this mechanism cannot be "
                "imported from a module: call "
                "`dpwitness.replay(file, mechanism=...)` instead.",
                "",
            ]
    lines += [*table(("", ""), card_facts(entry)), ""]
    if below := table_below_facts(entry):
        lines += [*below, ""]
    for text, file in entry.plots:
        lines += [f"![{text}]({file})", ""]
    notes = result.get("notes") or []
    if notes:
        lines += ["Notes:", "", *map(item, notes), ""]
    return lines


def card_facts(entry: Entry) -> Facts:
    """Return the facts of an audit as (label, markdown) pairs, without empty facts."""
    facts, _ = _CARDS.get(str(entry.result.get("kind")), _PLAIN)
    return [fact for fact in facts(entry) if fact[1]]


def table_below_facts(entry: Entry) -> list[str]:
    """Return the table below the facts as lines of markdown: the calls of a trace, or the checks of
    a target.
    """
    found = TABLES.get(str(entry.result.get("kind")))
    return found(entry.result) if found else []


def what_to_do(entry: Entry) -> str:
    """Return the advice for an audit: the next step, which depends on its verdict and kind."""
    result = entry.result
    found, symbol = result.get("verdict"), result.get("parameter", "epsilon")
    _, own_advice = _CARDS.get(str(result.get("kind")), _PLAIN)
    if str(found) in own_advice:
        return own_advice[str(found)]
    if found == Verdict.VIOLATED.value:
        least = number(result.get("parameter_lower"))
        finite = least is not None and 0 < least < float("inf")
        weaker = (
            f" or claim at least {symbol} = {figure(least)}, which is a lower bound only"
            if finite
            else ""
        )
        missing_witness = (
            "" if entry.witness_file else " No witness file could be written for it: see the notes."
        )
        return (
            "release nothing under this claim; replay the witness, then repair the "
            f"mechanism{weaker}.{missing_witness}"
        )
    if found == Verdict.SUSPECT.value:
        return (
            "read what is guessed in the first note. If the library promises this claim, "
            "delete the line `guessed` of the target (or scan "
            "with `--trust`) and audit again. If not, correct the claim or the domain in the "
            "target file."
        )
    if violated_in_bits(result):
        return (
            "round the outputs to a grid, or draw discrete noise, before release: no "
            "violation was found in their values, but their "
            "low bits violate the claim."
        )
    if found == Verdict.NOT_REFUTED.value:
        return (
            "no change is needed on this evidence. It covers the pairs tried at this budget "
            "and does not prove the claim; more trials "
            "find smaller violations, and a white-box check or a proof check can settle the claim."
        )
    if found == Verdict.CERTIFIED.value:
        return "no change is needed, within the domain and the assumptions stated below."
    if found == Verdict.SUPPORTED.value:
        return "no change is needed on this evidence, which is numerical or assumed, not proved."
    if result.get("exercised") is False:
        return (
            "audit a pair whose values change the result: other values, the pairs of a "
            "domain (`--domain`), or a search (`--search`). "
            "This audit says nothing about the claim, because the outputs on D0 and D1 look "
            "the same."
        )
    if found == Verdict.INCONCLUSIVE.value and result.get("evidence") == "assumed":
        return (
            "look at the line of code that the trace names. The claim is violated if the "
            "noise has the traced law, which the counts of "
            "this audit do not show: more trials or another pair may certify the violation."
        )
    if found == Verdict.INCONCLUSIVE.value:
        return (
            "run the audit again to the end, or with more trials; the measurements so far are "
            "shown below."
        )
    return (
        "fix the problems named in the notes and run the audit again; this audit says nothing "
        "about the claim."
    )


def _plain_facts(entry: Entry) -> Facts:
    """Return all fields that are a number, a word or a line as facts, for kinds without registered
    facts.
    """
    skipped_keys = {
        "schema_version",
        "name",
        "verdict",
        "headline",
        "notes",
        "environment",
        "witness_file",
        "sha256",
    }
    facts = []
    for key, value in entry.result.items():
        if key in skipped_keys or value is None or not isinstance(value, bool | int | float | str):
            continue
        text = ("no", "yes")[value] if isinstance(value, bool) else value
        facts.append(
            (
                key.replace("_", " "),
                figure(text, 6) if isinstance(text, float) else escaped_markdown(text),
            )
        )
    return [*facts, ("environment", _environment(entry.result))]


def _black_box_facts(entry: Entry) -> Facts:
    result = entry.result
    symbol = result.get("parameter", "epsilon")
    facts = [("claim", code(result.get("claim"))), relation_fact(result)]
    if result.get("verdict") != Verdict.ERROR.value:
        facts += [
            ("certified", _format_certified(result)),
            ("of the best possible", _format_share_of_limit(result)),
            (
                "smallest violation of this event's kind that would have been found",
                _format_detectable(result),
            ),
            ("how sure", _format_confidence(entry)),
        ]
    return [
        *facts,
        ("budget", _format_budget(result)),
        ("exact privacy loss", _format_enclosure(result)),
        *pair_facts(result),
        ("event", escaped_markdown(result.get("description") or "")),
        ("event chosen by", escaped_markdown(result.get("method") or "")),
        ("tally", _format_tallies(result)),
        ("causes", escaped_markdown(causes_text(result))),
        ("low bits", _format_bit_level(result, symbol)),
        ("pairs tried", _format_pairs(result, symbol)),
        (
            "trace",
            "; ".join(escaped_markdown(line) for line in explanations(result)[:_MAX_TRACE_LINES]),
        ),
        *run_facts(result),
    ]


def _format_enclosure(result: Json) -> str:
    """Format the white-box enclosure that a suite adds to a black-box result."""
    found = result.get("enclosure")
    if not found or "parameter_lower" not in found:
        return escaped_markdown(found["none"]) if found else ""
    route, upper_end = escaped_markdown(found["route"]), escaped_markdown(found["upper_end"])
    return (
        f"{result.get('parameter', 'epsilon')} in {enclosure(found)}: {route}; upper end: "
        f"{upper_end}"
    )


def _format_certified(result: Json) -> str:
    symbol = result.get("parameter", "epsilon")
    text = beyond(symbol, result.get("parameter_lower"))
    if symbol != "epsilon":
        text += f"; {beyond('epsilon', result.get('epsilon_lower'))} at delta = 0"
    claim = claim_of(result)
    least = number(result.get("parameter_lower"))
    return text + (
        f"; {figure(least / claim.parameter)} times the claim"
        if claim and least is not None and least < float("inf")
        else ""
    )


def _format_share_of_limit(result: Json) -> str:
    limit, least = number(result.get("limit")), number(result.get("parameter_lower"))
    if not limit or least is None:
        return "the limit is unknown: it needs the exact law of the privacy loss"
    share = f"{figure(least)} / {figure(limit)} = {least / limit:.1%}"
    return (
        f"{share} of the limit: the median of what the best possible test certifies at this "
        "number of trials"
    )


def _format_detectable(result: Json) -> str:
    found, claim = number(result.get("detectable")), claim_of(result)
    if found is None:
        return ""
    if found == float("inf"):
        return "none: the guesses were too few at this budget; raise the number of trials"
    times = f" ({figure(found / claim.parameter)} times the claim)" if claim else ""
    return f"{result.get('parameter', 'epsilon')} = {figure(found)}{times}, with probability 0.9"


def _format_confidence(entry: Entry) -> str:
    result = entry.result
    confidence, p = number(result.get("confidence")), number(result.get("p_value"))
    if confidence is None:
        return ""
    text = (
        f"confidence {confidence:.12g}: the certified bound is too high with probability at most "
        f"{error_of(confidence):g}"
    )
    if p is not None:
        text += f"; p {_format_p_value(p)}, corrected for all interim looks and all pairs"
    if entry.adjusted is not None:
        text += f"; p {_format_p_value(entry.adjusted)} among all audits of this report (Holm)"
    return text


def _format_p_value(p: float) -> str:
    return f"= {p:.3g}" if p > 1e-99 else "< 1e-99"


def _format_budget(result: Json) -> str:
    total, asked = number(result.get("trials")), number(result.get("requested"))
    text = f"{count(total)} runs of the mechanism"
    return text + (
        f" of {count(asked)} allowed"
        if total is not None and asked is not None and asked != total
        else ""
    )


def _format_tally(tally: dict[str, int] | None) -> str:
    if not tally:
        return ""
    total = tally["correct"] + tally["wrong"]
    share = f" ({tally['correct'] / total:.4%} of the guesses)" if total else ""
    sides = "both datasets are guessed" if tally["directions"] == 2 else "one dataset is guessed"
    return (
        f"{tally['correct']:,} right{share}, {tally['wrong']:,} wrong, in {tally['rounds']:,} "
        f"coin flips; {sides}"
    )


def _format_tallies(result: Json) -> str:
    """Format the tally of the event, and the tallies of the earlier events, whose rounds were used
    for training.
    """
    own = _format_tally(result.get("tally"))
    earlier = [_format_tally(stage) for stage in (result.get("stages") or [])[:-1]]
    return (
        "; ".join(
            [
                f"{own}, for the event above",
                *(f"before it, for an earlier event: {text}" for text in earlier),
            ]
        )
        if earlier
        else own
    )


def _format_bit_level(result: Json, symbol: str) -> str:
    bits = result.get("bit_level")
    if not bits:
        return (
            "not examined: not requested, the outputs are not floating-point numbers, or the "
            "audit ended early"
        )
    found = beyond("epsilon", bits.get("epsilon_lower"))
    text = f"{verdict(bits['verdict'])} (separate from the verdict on values); {found}"
    own = bits.get("pair") if bits.get("pair") != result.get("pair") else None
    pair = (
        f"on another pair: {code(dataset(own['d0']))} and {code(dataset(own['d1']))}" if own else ""
    )
    return "; ".join(
        filter(
            None,
            [
                text,
                pair,
                escaped_markdown(bits.get("description") or ""),
                _format_tally(bits.get("tally")),
            ],
        )
    )


def _format_pairs(result: Json, symbol: str) -> str:
    pairs = result.get("pairs") or []
    if len(pairs) < 2:
        return ""
    ranked = sorted(pairs, key=lambda score: number(score.get("expected")) or 0.0, reverse=True)
    confirmed = [", confirmed" if score["confirmed"] else "" for score in ranked]
    shown = [
        f"{escaped_markdown(s['why'])} ({symbol} {figure(s['expected'])}{c})"
        for s, c in zip(ranked[:5], confirmed, strict=False)
    ]
    more = [f"and {len(pairs) - 5} more"] if len(pairs) > 5 else []
    return f"{len(pairs)}, ranked on separate runs: " + "; ".join(shown + more)


_PLAIN: tuple[Card, Mapping[str, str]] = (_plain_facts, {})
_CARDS: dict[str, tuple[Card, Mapping[str, str]]] = {"black box": (_black_box_facts, {}), **CARDS}
