"""Markdown of a report: the card of one audit, with the verdict, the number, the confidence and the
advice first; and the overview of all audits with their table, worst first.

The facts of a card are those of the kind of result (`auditors.witnesses.kinds`). A kind without
facts shows its headline and its plain fields.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dpwitness.auditors.witnesses.kinds import (
    Fact,
    Facts,
    claim_of,
    describe_environment,
    enclosure,
    kind_of,
)
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.wording import beyond, figure, number, p_value
from dpwitness.reports.summary import (
    Entry,
    Family,
    acceptance_text,
    cost,
    count_verdicts,
    violated_in_bits,
)
from dpwitness.reports.wording import (
    code,
    escaped_markdown,
    float_rounding,
    item,
    line,
    link,
    table,
    verdict,
)


def card(entry: Entry) -> list[str]:
    """Return the card of one audit as lines of markdown."""
    result, kind = entry.result, kind_of(entry.result)
    headline, file = escaped_markdown(result.get("headline") or ""), entry.witness_file
    accepted = acceptance_text(result)
    parts = [
        [f'<a id="{entry.slug}"></a>', f"### {verdict(result.get('verdict'))}: {code(entry.name)}"],
        [f"**{headline}**"] if headline else [],
        [f"What to do: {what_to_do(entry)}"],
        [f"Accepted {escaped_markdown(accepted)}."] if accepted else [],
    ]
    if file:
        how = f"Witness: [{file}]({file}). Anyone can reproduce this verdict, {kind.again}:"
        parts += [[how], ["```", f"dpwitness replay {file}", "```"]]
        if kind.runs and not (result.get("witness") or {}).get("target"):
            parts.append([_NO_TARGET])
    parts += [table(("", ""), card_facts(entry)), table_below_facts(entry)]
    parts += [[f"![{text}]({file})"] for text, file in entry.plots]
    notes = result.get("notes") or []
    parts += [["Notes:"], [item(note) for note in notes]] if notes else []
    return [line for part in parts if part for line in (*part, "")]


_NO_TARGET = (
    "The witness file names no mechanism, because this mechanism cannot be imported from a module: "
    "call `dpwitness.replay(file, mechanism=...)` instead."
)


def card_facts(entry: Entry) -> list[tuple[str, str]]:
    """Return the facts of an audit as (label, markdown) pairs, without empty facts."""
    correction = ""
    if entry.adjusted is not None:
        correction = f"; p {p_value(entry.adjusted)} among all audits of this report (Holm)"
    return [
        (
            escaped_markdown(label),
            (code if is_code else escaped_markdown)(
                text + correction if label == "how sure" else text
            ),
        )
        for label, text, is_code in kind_of(entry.result).facts(entry.result) or _plain_facts(entry)
        if text
    ]


def table_below_facts(entry: Entry) -> list[str]:
    """Return the table below the facts as lines of markdown: the calls of a trace, or the checks of
    a target.
    """
    found = kind_of(entry.result).table(entry.result)
    if found is None:
        return []
    header, rows, codes = found
    shown = [
        [(code if i in codes else escaped_markdown)(cell) for i, cell in enumerate(row)]
        for row in rows
    ]
    return table(header, shown)


def what_to_do(entry: Entry) -> str:
    """Return the advice for an audit: that of its kind, or else that for its verdict."""
    result = entry.result
    found, symbol = str(result.get("verdict")), result.get("parameter", "epsilon")
    own_advice = kind_of(result).advice.get(found)
    if own_advice is not None:
        return own_advice
    if violated_in_bits(result) and found not in ("VIOLATED", "SUSPECT"):
        return _ADVICE["BITS"]
    if found in ("INCONCLUSIVE", "ERROR") and result.get("exercised") is False:
        return _ADVICE["NOT_EXERCISED"]
    if found == "INCONCLUSIVE" and result.get("evidence") == "assumed":
        return _ADVICE["TRACED"]
    least = number(result.get("parameter_lower")) or 0.0
    weaker, missing_witness = "", ""
    if 0 < least < math.inf:
        weaker = f" or claim at least {symbol} = {figure(least)}, which is a lower bound only"
    if not entry.witness_file:
        missing_witness = " No witness file could be written for it: see the notes."
    return _ADVICE.get(found, _ADVICE["ERROR"]).format(weaker=weaker, missing=missing_witness)


_ADVICE = {
    "VIOLATED": "release nothing under this claim; replay the witness, then repair the "
    "mechanism{weaker}.{missing}",
    "SUSPECT": "read what is guessed in the first note. If the library promises this claim, "
    "delete the line `guessed` of the target and audit again. If not, correct the claim or "
    "the domain in the target file.",
    "BITS": "round the outputs to a grid, or draw discrete noise, before release: no "
    "violation was found in their values, but float rounding tells the datasets apart.",
    "NOT_REFUTED": "no change is needed on this evidence. It covers the pairs tried at this budget "
    "and does not prove the claim; more trials find smaller violations, and a white-box "
    "check or a proof check can settle the claim.",
    "CERTIFIED": "no change is needed, within the domain and the assumptions stated below.",
    "SUPPORTED": "no change is needed on this evidence, which is numerical or assumed, not proved.",
    "NOT_EXERCISED": "audit a pair whose values change the result: other values, the pairs of a "
    "domain (`--domain`), or a search (`--search`). This audit says nothing about the "
    "claim, because the outputs on D0 and D1 look the same.",
    "TRACED": "look at the line of code that the trace names. The claim is violated if the noise "
    "has the traced law, which the counts of this audit do not show: more trials or another "
    "pair may certify the violation.",
    "INCONCLUSIVE": "run the audit again to the end, or with more trials; the measurements so far "
    "are shown below.",
    "ERROR": "fix the problems named in the notes and run the audit again; this audit says nothing "
    "about the claim.",
}


def _plain_facts(entry: Entry) -> Facts:
    """Return all fields that are a number, a word or a line, for kinds without facts."""
    skipped = ("schema_version", "name", "verdict", "headline", "witness_file", "sha256")
    facts = [
        Fact(key.replace("_", " "), figure(value, 6) if isinstance(value, float) else str(value))
        for key, value in entry.result.items()
        if key not in skipped and isinstance(value, bool | int | float | str)
    ]
    return [*facts, Fact("environment", describe_environment(entry.result))]


SEVERITY = ("VIOLATED", "SUSPECT", "ERROR", "INCONCLUSIVE", "NOT_REFUTED", "SUPPORTED", "CERTIFIED")


def opening(entries: Sequence[Entry], together: Family | None) -> list[str]:
    """Return the sentences that open a report: the answer, how sure it is, and what to do."""
    found = [*answer(entries), _family_confidence(entries, together), _next_steps(entries)]
    return [sentence for sentence in found if sentence]


def answer(entries: Sequence[Entry]) -> list[str]:
    """Return the overall verdict of all audits as sentences of markdown, the decisive sentence
    first.
    """
    if not entries:
        return ["No audit was run."]
    found = count_verdicts([entry.result for entry in entries])
    audits = f"{len(entries)} {_plural(len(entries), 'audit')}"
    broken, suspects = _with_verdict(entries, "VIOLATED"), _with_verdict(entries, "SUSPECT")
    expected = [entry for entry in entries if entry.result.get("expected")]
    sentences = (
        (expected, _agreement(expected, len(entries) - len(expected))),
        (broken, f"VIOLATED in {len(broken)} of {audits}: {_join_names(broken)}."),
        (
            suspects,
            f"SUSPECT in {len(suspects)} of {audits} of guessed claims: {_join_names(suspects)}.",
        ),
        (
            found["NOT_REFUTED"] + found["SUPPORTED"] + found["CERTIFIED"] == 0,
            "No audit reached a verdict: it is unknown whether these claims hold.",
        ),
        (True, f"No violation found in {audits}."),
    )
    first = next(sentence for holds, sentence in sentences if holds)
    lines = []
    if len(entries) > 1:
        words = [f"{n} {verdict(name).lower()}" for name, n in found.items() if n]
        lines = [f"Verdicts: {', '.join(words)}.", *_largest(broken)]
    elif not expected and entries[0].result.get("headline"):
        first, _, found_often = line(entries[0].result["headline"]).partition("; a ")
        first = escaped_markdown(first)
        lines = [f"A {escaped_markdown(found_often)}."] if found_often else []
        if broken and entries[0].result.get("event"):
            lines = [
                "Whoever sees the output distinguishes the two neighboring datasets more often "
                "than the claim allows."
            ]
    leaky = [entry for entry in entries if violated_in_bits(entry.result)]
    if leaky:
        lines.append(
            f"Float rounding: distinguishable in {_join_names(leaky)}; not counted as a violation."
        )
    accepted = [entry for entry in entries if entry.result.get("accepted")]
    if accepted:
        lines.append(f"Accepted until a date: {_join_names(accepted)}.")
    return [first, *lines]


def _with_verdict(entries: Sequence[Entry], *names: str) -> list[Entry]:
    return [entry for entry in entries if entry.result.get("verdict") in names]


def _largest(broken: Sequence[Entry]) -> list[str]:
    """Return a sentence on the violation with the largest ratio of certified to claimed."""
    ratios = [(ratio, entry) for entry in broken if (ratio := _ratio(entry.result)) is not None]
    if not ratios:
        return []
    _, worst = max(ratios, key=lambda each: each[0])
    value = beyond(worst.result.get("parameter", "epsilon"), worst.result["parameter_lower"])
    claim = code(worst.result.get("claim"))
    return [f"Largest: {code(worst.name)}, {value} certified where {claim} is claimed."]


def _agreement(expected: Sequence[Entry], uncompared: int) -> str:
    """Return how many of the audits with a known truth have the expected verdict, and which have a
    wrong verdict; `uncompared` is the number of other audits.
    """
    right = sum(entry.result.get("right") is True for entry in expected)
    wrong = [entry for entry in expected if entry.result.get("right") is False]
    others = {
        "not settled": len(expected) - right - len(wrong),
        "with nothing to compare with": uncompared,
    }
    rest = [f"{n} {what}" for what, n in others.items() if n]
    return (
        f"{right} of {len(expected)} {_plural(len(expected), 'verdict')} as expected"
        + (f"; wrong: {_join_names(wrong)}." if wrong else ".")
        + (f" Besides, {' and '.join(rest)}." if rest else "")
    )


def _family_confidence(entries: Sequence[Entry], together: Family | None) -> str:
    """Return the sentences on Holm's correction over the family of audits; an empty text without a
    family.
    """
    if together is None:
        return ""
    if _with_verdict(entries, "SUSPECT") and not together.refuted:
        return (
            "How sure: each number holds at the confidence of its audit. A SUSPECT is a violation "
            "if the guessed claim is what the code promises."
        )
    refuted, alone = ([entries[i] for i in places] for places in (together.refuted, together.alone))
    text = (
        "How sure: each verdict holds at the confidence of its audit. Judged together "
        f"({len(together.adjusted)} p-values, Holm), "
    )
    text += (
        f"the {_plural(len(refuted), 'claim')} of {_join_names(refuted)} "
        f"{_plural(len(refuted), 'is', 'are')} refuted; the probability that any such refutation "
        f"is false is at most {together.error:g}."
        if refuted
        else f"no claim is refuted at a family-wise error of {together.error:g}."
    )
    if alone:
        text += (
            f" {_join_names(alone)}: violated at the confidence of one audit, not in the family; "
            "a replay of the witness, on fresh runs, settles it."
        )
    return text


def _next_steps(entries: Sequence[Entry]) -> str:
    """Return the advice for the report: the next steps, as one sentence; an empty text if there are
    none.
    """
    if not entries:
        return ""
    results = [entry.result for entry in entries]
    files = list(filter(None, (entry.witness_file for entry in entries)))
    more = ", ..." if len(files) > 1 else ""
    # in a suite some mechanisms are wrong on purpose
    judged = [] if any(result.get("expected") for result in results) else entries
    steps = {
        f"replay the {_plural(len(files), 'witness', 'witnesses')} "
        f"(`dpwitness replay {''.join(files[:1])}`{more})": bool(files),
        "repair the violated mechanisms, or withdraw their claims, before any release": bool(
            _with_verdict(judged, "VIOLATED")
        ),
        "read what is guessed for the suspects; if it is wrong, correct it and audit again": bool(
            _with_verdict(judged, "SUSPECT")
        ),
        "look at the wrong verdicts: either the tool or the known truth is wrong there": (
            False in [result.get("right") for result in results]
        ),
        "round floating-point outputs to a grid": any(
            violated_in_bits(entry.result) for entry in judged
        ),
        "run the audits without a verdict again": bool(
            _with_verdict(entries, "ERROR", "INCONCLUSIVE")
        ),
    }
    taken = [step for step, applies in steps.items() if applies] or [
        "no change is needed on this evidence, which does not prove the claim: smaller violations "
        "than the detectable one may exist"
    ]
    return f"What to do: {'; '.join(taken)}."


@dataclass(frozen=True, slots=True)
class CardColumn:
    """Column of the table of all audits: `head`, `text` (entry -> markdown of the cell) and `value`
    (entry -> sort key).
    """

    head: str
    text: Callable[[Entry], str]
    value: Callable[[Entry], Any] = lambda _: ""


def sort_worst_first(entries: Sequence[Entry]) -> list[Entry]:
    """Sort audits by the severity of the verdict, then by the ratio of the bound to the claim,
    worst first.
    """
    return sorted(
        entries,
        key=lambda entry: (_rank(entry.result.get("verdict")), -(_ratio(entry.result) or 0.0)),
    )


def columns(entries: Sequence[Entry]) -> list[CardColumn]:
    """Return the columns of the table of audits, without optional columns that would be empty."""
    return [
        column
        for column in _COLUMNS
        if column.head not in _OPTIONAL or any(column.text(entry) != "-" for entry in entries)
    ]


def _field(key: str, shown: Callable[[Any], str]) -> Callable[[Entry], str]:
    """Return a function that formats a field of an audit, or returns "-" if it is empty."""
    return lambda entry: shown(entry.result[key]) if entry.result.get(key) else "-"


def _format_verdict(entry: Entry) -> str:
    shown = verdict(entry.result.get("verdict"))
    accepted = " (accepted)" if entry.result.get("accepted") else ""
    return f"**{shown}**{accepted}" if shown == "VIOLATED" else shown + accepted


def _format_bits(entry: Entry) -> str:
    return float_rounding((entry.result.get("bit_level") or {"verdict": "-"})["verdict"])


def _detectable(entry: Entry) -> float | None:
    bound = _lower_bound(entry.result)
    return None if bound is None else number(entry.result.get("detectable"))


def _lower_bound(result: Json) -> float | None:
    """Return the certified lower bound of a result's parameter; None if the audit failed or
    certifies nothing.
    """
    if result.get("verdict") == Verdict.ERROR.value:
        return None
    return number(result.get("parameter_lower", result.get("epsilon_lower")))


def _format_certified(entry: Entry) -> str:
    """Format the certified bound, or the measured number of a result that certifies none."""
    result, measure = entry.result, kind_of(entry.result).measure
    least = _lower_bound(result)
    bound = "-" if least is None else beyond(result.get("parameter", "epsilon"), least)
    return bound if measure is None else measure.fill(measure.words, result) or bound


def _format_enclosure(entry: Entry) -> str:
    """Format the enclosure of the pair's exact parameter, or "-" if the audit computed none."""
    result = entry.result
    found = result if "parameter_upper" in result else result.get("enclosure")
    if not found or result.get("verdict") == Verdict.ERROR.value:
        return "-"
    return enclosure(found) if "parameter_lower" in found else "no density"


_OPTIONAL = ("test", "expected", "enclosure", "limit", "float rounding")
_COLUMNS = (
    CardColumn("audit", lambda e: link(e.name, e.slug), lambda e: e.name),
    CardColumn("test", _field("test", code)),
    CardColumn("claim", _field("claim", code)),
    CardColumn("relation", _field("relation", escaped_markdown)),
    CardColumn("expected", _field("expected", escaped_markdown)),
    CardColumn("verdict", _format_verdict, lambda e: _rank(e.result.get("verdict"))),
    CardColumn("certified", _format_certified, lambda e: _ratio(e.result)),
    CardColumn("enclosure", _format_enclosure),
    CardColumn(
        "limit", lambda e: figure(e.result.get("limit")), lambda e: number(e.result.get("limit"))
    ),
    CardColumn("detectable", lambda e: figure(_detectable(e)), _detectable),
    CardColumn("float rounding", _format_bits),
    CardColumn("cost", lambda e: cost(e.result), lambda e: number(e.result.get("trials"))),
)


def legend(entries: Sequence[Entry]) -> str:
    """Return the legend of the table's columns; an empty text without black-box audits."""
    if not any("limit" in entry.result for entry in entries):
        return ""
    shown = {column.head for column in columns(entries)}
    sentences = [f"*{head}*: {text}" for head, text in _LEGEND.items() if head in shown]
    return (
        f"{' '.join(sentences)} A black-box audit can find violations; it cannot prove that a "
        "claim holds."
    )


_LEGEND = {
    "enclosure": "the exact parameter of the pair, from the output density.",
    "certified": "the true parameter is larger than this, at the stated confidence.",
    "limit": "the median of what the best possible test certifies with as many runs.",
    "detectable": "a violation this large, of the kind that the event shows, would have been found "
    "with probability 0.9; a raw value in one of 1e4 runs is another kind.",
    "float rounding": "whether the last bits of floating-point outputs distinguish the datasets; "
    "not counted as a violation.",
}


def _rank(found: Any) -> int:
    return SEVERITY.index(found) if found in SEVERITY else len(SEVERITY)


def _ratio(result: Json) -> float | None:
    claim, least = claim_of(result), number(result.get("parameter_lower"))
    return least / claim.parameter if claim and least is not None else None


def _join_names(entries: Sequence[Entry]) -> str:
    shown = ", ".join(code(entry.name) for entry in entries[:10])
    return shown + (f" and {len(entries) - 10} more" if len(entries) > 10 else "")


def _plural(n: int, one: str, many: str = "") -> str:
    return one if n == 1 else many or f"{one}s"
