"""Card of one audit, in markdown: the verdict, the number, the confidence and the advice first,
then all facts.

The facts are those of the kind of result (`auditors.witnesses.kinds`). A kind without facts shows
its headline and its plain fields.
"""

from __future__ import annotations

from dpwitness.auditors.witnesses.facts import Fact, Facts, describe_environment
from dpwitness.auditors.witnesses.kinds import kind_of
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.wording import figure, number, p_value
from dpwitness.reports.phrasing.facts import Entry
from dpwitness.reports.phrasing.summary import acceptance_text, violated_in_bits
from dpwitness.reports.phrasing.wording import code, escaped_markdown, item, table, verdict


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
    """Return the advice for an audit: the next step, which depends on its verdict and kind."""
    result = entry.result
    found, symbol = result.get("verdict"), result.get("parameter", "epsilon")
    own_advice = kind_of(result).advice.get(str(found))
    if own_advice is not None:
        return own_advice
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
            "delete the line `guessed` of the target and audit again. If not, correct the claim or "
            "the domain in the target file."
        )
    if violated_in_bits(result):
        return (
            "round the outputs to a grid, or draw discrete noise, before release: no "
            "violation was found in their values, but float rounding tells the datasets apart."
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


def _plain_facts(result: Json) -> Facts:
    """Return all fields that are a number, a word or a line, for kinds without facts."""
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
    for key, value in result.items():
        if key in skipped_keys or value is None or not isinstance(value, bool | int | float | str):
            continue
        text = ("no", "yes")[value] if isinstance(value, bool) else value
        shown = figure(text, 6) if isinstance(text, float) else str(text)
        facts.append(Fact(key.replace("_", " "), shown))
    return [*facts, Fact("environment", describe_environment(result))]
