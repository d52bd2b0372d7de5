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
from dpwitness.reports.phrasing.summary import (
    Entry,
    Family,
    acceptance_text,
    cost,
    count_verdicts,
    violated_in_bits,
)
from dpwitness.reports.phrasing.wording import code, escaped_markdown, item, link, table, verdict


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
            f"this verdict, {kind_of(result).again}:",
            "",
            "```",
            f"dpwitness replay {entry.witness_file}",
            "```",
            "",
        ]
        if kind_of(result).runs and not (result.get("witness") or {}).get("target"):
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


def card_facts(entry: Entry) -> list[tuple[str, str]]:
    """Return the facts of an audit as (label, markdown) pairs, without empty facts."""
    facts = kind_of(entry.result).facts(entry.result) or _plain_facts(entry.result)
    found = []
    for label, fact, is_code in facts:
        text = fact
        if label == "how sure" and fact and entry.adjusted is not None:
            text = f"{fact}; p {p_value(entry.adjusted)} among all audits of this report (Holm)"
        if text:
            found.append(
                (escaped_markdown(label), code(text) if is_code else escaped_markdown(text))
            )
    return found


def table_below_facts(entry: Entry) -> list[str]:
    """Return the table below the facts as lines of markdown: the calls of a trace, or the checks of
    a target.
    """
    found = kind_of(entry.result).table(entry.result)
    if found is None:
        return []
    header, rows, codes = found
    shown = [
        [code(cell) if i in codes else escaped_markdown(cell) for i, cell in enumerate(row)]
        for row in rows
    ]
    return table(header, shown)


def what_to_do(entry: Entry) -> str:
    """Return the advice for an audit: that of its kind, or else the first of a list that fits."""
    result = entry.result
    found, symbol = result.get("verdict"), result.get("parameter", "epsilon")
    own_advice = kind_of(result).advice.get(str(found))
    if own_advice is not None:
        return own_advice
    least = number(result.get("parameter_lower"))
    weaker = (
        f" or claim at least {symbol} = {figure(least)}, which is a lower bound only"
        if least is not None and 0 < least < math.inf
        else ""
    )
    missing_witness = (
        "" if entry.witness_file else " No witness file could be written for it: see the notes."
    )
    inconclusive = found == Verdict.INCONCLUSIVE.value
    advice = (
        (
            found == Verdict.VIOLATED.value,
            "release nothing under this claim; replay the witness, then repair the "
            f"mechanism{weaker}.{missing_witness}",
        ),
        (
            found == Verdict.SUSPECT.value,
            "read what is guessed in the first note. If the library promises this claim, "
            "delete the line `guessed` of the target and audit again. If not, correct the claim or "
            "the domain in the target file.",
        ),
        (
            violated_in_bits(result),
            "round the outputs to a grid, or draw discrete noise, before release: no "
            "violation was found in their values, but float rounding tells the datasets apart.",
        ),
        (
            found == Verdict.NOT_REFUTED.value,
            "no change is needed on this evidence. It covers the pairs tried at this budget "
            "and does not prove the claim; more trials find smaller violations, and a white-box "
            "check or a proof check can settle the claim.",
        ),
        (
            found == Verdict.CERTIFIED.value,
            "no change is needed, within the domain and the assumptions stated below.",
        ),
        (
            found == Verdict.SUPPORTED.value,
            "no change is needed on this evidence, which is numerical or assumed, not proved.",
        ),
        (
            result.get("exercised") is False,
            "audit a pair whose values change the result: other values, the pairs of a "
            "domain (`--domain`), or a search (`--search`). This audit says nothing about the "
            "claim, because the outputs on D0 and D1 look the same.",
        ),
        (
            inconclusive and result.get("evidence") == "assumed",
            "look at the line of code that the trace names. The claim is violated if the noise has "
            "the traced law, which the counts of this audit do not show: more trials or another "
            "pair may certify the violation.",
        ),
        (
            inconclusive,
            "run the audit again to the end, or with more trials; the measurements so far are "
            "shown below.",
        ),
    )
    otherwise = (
        "fix the problems named in the notes and run the audit again; this audit says nothing "
        "about the claim."
    )
    return next((text for fits, text in advice if fits), otherwise)


def _plain_facts(result: Json) -> Facts:
    """Return all fields that are a number, a word or a line, for kinds without facts."""
    skipped = ("schema_version", "name", "verdict", "headline", "witness_file", "sha256")
    facts = []
    for key, value in result.items():
        if key not in skipped and isinstance(value, bool | int | float | str):
            shown = figure(value, 6) if isinstance(value, float) else str(value)
            shown = ("no", "yes")[value] if isinstance(value, bool) else shown
            facts.append(Fact(key.replace("_", " "), shown))
    return [*facts, Fact("environment", describe_environment(result))]


SEVERITY = ("VIOLATED", "SUSPECT", "ERROR", "INCONCLUSIVE", "NOT_REFUTED", "SUPPORTED", "CERTIFIED")


def opening(entries: Sequence[Entry], together: Family | None) -> list[str]:
    """Return the sentences that open a report: the answer, how sure it is, and what to do."""
    lines = [*answer(entries), _family_confidence(entries, together), _next_steps(entries)]
    return [line for line in lines if line]


def answer(entries: Sequence[Entry]) -> list[str]:
    """Return the overall verdict of all audits as sentences of markdown, the decisive sentence
    first.
    """
    if not entries:
        return ["No audit was run."]
    found = count_verdicts([entry.result for entry in entries])
    audits = f"{len(entries)} {_plural(len(entries), 'audit')}"
    broken, suspects = (
        [entry for entry in entries if entry.result.get("verdict") == each.value]
        for each in (Verdict.VIOLATED, Verdict.SUSPECT)
    )
    expected = [entry for entry in entries if entry.result.get("expected")]
    decided = found["NOT_REFUTED"] + found["SUPPORTED"] + found["CERTIFIED"]
    sentences = (
        (expected, _agreement(expected, len(entries) - len(expected))),
        (broken, f"VIOLATED in {len(broken)} of {audits}: {_join_names(broken)}."),
        (
            suspects,
            f"SUSPECT in {len(suspects)} of {audits} of guessed claims: {_join_names(suspects)}.",
        ),
        (decided == 0, "No audit reached a verdict: it is unknown whether these claims hold."),
        (True, f"No violation found in {audits}."),
    )
    first = next(sentence for holds, sentence in sentences if holds)
    unusual = (Verdict.CERTIFIED.value, Verdict.SUPPORTED.value)
    words = [
        f"{n} {verdict(name).lower()}" for name, n in found.items() if n or name not in unusual
    ]
    lines = [first, "Verdicts: " + ", ".join(words) + "."]
    leaky = [entry for entry in entries if violated_in_bits(entry.result)]
    if leaky:
        lines[-1] += (
            " Apart from these, float rounding tells the datasets apart in "
            f"{len(leaky)}: {_join_names(leaky)}."
        )
    worst = max(broken, key=lambda entry: _ratio(entry.result) or 0.0, default=None)
    if worst is not None and _ratio(worst.result) is not None:
        result = worst.result
        value = beyond(result.get("parameter", "epsilon"), result.get("parameter_lower"))
        lines += [
            f"Largest: {code(worst.name)}, {value} certified where "
            f"{code(result.get('claim'))} is claimed."
        ]
    return lines


def _agreement(expected: Sequence[Entry], uncompared: int) -> str:
    """Return how many of the audits with a known truth have the expected verdict, and which have a
    wrong verdict; `uncompared` is the number of other audits.
    """
    right, wrong = (
        [entry for entry in expected if entry.result.get("right") is each] for each in (True, False)
    )
    others = {
        "not settled": len(expected) - len(right) - len(wrong),
        "with nothing to compare with": uncompared,
    }
    rest = [f"{n} {what}" for what, n in others.items() if n]
    return (
        f"{len(right)} of {len(expected)} {_plural(len(expected), 'verdict')} as expected"
        + (f"; wrong: {_join_names(wrong)}." if wrong else ".")
        + (f" Besides, {' and '.join(rest)}." if rest else "")
    )


def _family_confidence(entries: Sequence[Entry], together: Family | None) -> str:
    """Return the sentences on Holm's correction over the family of audits; an empty text without a
    family.
    """
    if together is None:
        return ""
    refuted, alone = ([entries[i] for i in places] for places in (together.refuted, together.alone))
    text = (
        "How sure: each verdict holds at the confidence in its card. Judged together "
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
    verdicts = {entry.result.get("verdict") for entry in entries}
    files = [entry.witness_file for entry in entries if entry.witness_file]
    replay = f"(`dpwitness replay {files[0]}`{', ...' if len(files) > 1 else ''})" if files else ""
    # in a suite some mechanisms are wrong on purpose
    is_suite = any(entry.result.get("expected") for entry in entries)
    steps = {
        f"replay the {_plural(len(files), 'witness', 'witnesses')} {replay}": bool(files),
        "repair the violated mechanisms, or withdraw their claims, before any release": (
            Verdict.VIOLATED.value in verdicts and not is_suite
        ),
        "look at the wrong verdicts: either the tool or the known truth is wrong there": any(
            entry.result.get("right") is False for entry in entries
        ),
        "round floating-point outputs to a grid": (
            any(violated_in_bits(entry.result) for entry in entries) and not is_suite
        ),
        "run the audits without a verdict again": bool(
            verdicts & {Verdict.ERROR.value, Verdict.INCONCLUSIVE.value}
        ),
    }
    if entries and not any(steps.values()):
        return (
            "What to do: no change is needed on this evidence; the column `detectable` shows "
            "which violations it could have missed."
        )
    taken = [step for step, needed in steps.items() if needed]
    return f"What to do: {'; '.join(taken)}." if taken else ""


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
    results = [entry.result for entry in entries]
    found = [
        CardColumn("audit", lambda e: link(e.name, e.slug), lambda e: e.name),
        *(
            [CardColumn("test", lambda e: code(e.result.get("test") or "-"))]
            if any(r.get("test") for r in results)
            else []
        ),
        CardColumn("claim", lambda e: code(e.result["claim"]) if e.result.get("claim") else "-"),
        CardColumn("relation", lambda e: escaped_markdown(e.result.get("relation") or "-")),
        *(
            [CardColumn("expected", lambda e: escaped_markdown(e.result.get("expected") or "-"))]
            if any(r.get("expected") for r in results)
            else []
        ),
        CardColumn("verdict", _format_verdict, lambda e: _rank(e.result.get("verdict"))),
        CardColumn("certified", _format_certified, lambda e: _ratio(e.result)),
    ]
    if any(_format_enclosure(r) for r in results):
        found.append(CardColumn("enclosure", lambda e: _format_enclosure(e.result) or "-"))
    return [
        *found,
        CardColumn(
            "limit",
            lambda e: figure(e.result.get("limit")),
            lambda e: number(e.result.get("limit")),
        ),
        CardColumn(
            "certified / limit",
            lambda e: f"{share:.1%}" if (share := _share(e.result)) is not None else "-",
            lambda e: _share(e.result),
        ),
        CardColumn(
            "detectable",
            lambda e: (
                figure(e.result.get("detectable")) if _lower_bound(e.result) is not None else "-"
            ),
            lambda e: (
                number(e.result.get("detectable")) if _lower_bound(e.result) is not None else None
            ),
        ),
        CardColumn(
            "low bits",
            lambda e: (
                "distinguishable"
                if violated_in_bits(e.result)
                else verdict(bits["verdict"])
                if (bits := e.result.get("bit_level"))
                else "-"
            ),
        ),
        CardColumn("cost", lambda e: cost(e.result), lambda e: number(e.result.get("trials"))),
    ]


def _format_verdict(entry: Entry) -> str:
    shown = verdict(entry.result.get("verdict"))
    accepted = " (accepted)" if entry.result.get("accepted") else ""
    return (
        f"**{shown}**" if entry.result.get("verdict") == Verdict.VIOLATED.value else shown
    ) + accepted


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


def _share(result: Json) -> float | None:
    limit, least = number(result.get("limit")), _lower_bound(result)
    return least / limit if limit and least is not None else None


def _format_enclosure(result: Json) -> str:
    """Format the enclosure of the pair's exact parameter, if the audit computed one."""
    found = result if "parameter_upper" in result else result.get("enclosure")
    if not found or result.get("verdict") == Verdict.ERROR.value:
        return ""
    return enclosure(found) if "parameter_lower" in found else "no density"


def legend(entries: Sequence[Entry]) -> str:
    """Return the legend of the table's columns; an empty text without black-box audits."""
    if not any("limit" in entry.result for entry in entries):
        return ""
    exact = (
        "*enclosure*: the exact parameter of the pair, from the output density. "
        if any(_format_enclosure(entry.result) for entry in entries)
        else ""
    )
    return (
        f"{exact}*certified*: the true parameter is larger than this, at the stated confidence. "
        "*limit*: the median of what the best possible test certifies with as many trials, where "
        "the law is known; half of such tests pass it. *detectable*: a violation this large, of "
        "the kind that the event shows, would have been found with probability 0.9; violations of "
        "another kind, such as a raw value in one of 1e4 runs, are not covered. *low bits*: the "
        "verdict on floating-point bits, separate from the verdict on values. A black-box audit "
        "can find violations; it cannot prove that a claim holds."
    )


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
