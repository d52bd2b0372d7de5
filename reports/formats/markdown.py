"""A report as markdown, for a person who decides: the verdict first, then the number, then how sure, then what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpwitness.auditors.results.verdicts import Verdict
from dpwitness.mechanisms.terms.reading import Json
from dpwitness.reports.cards.cards import card
from dpwitness.reports.words.facts import Entry, claim_of, enclosure
from dpwitness.reports.words.summary import Family, tally_of_verdicts, violated_in_bits
from dpwitness.reports.words.wording import beyond, code, count, figure, number, prose, table, verdict

_SEVERITY = [
    v.value for v in (Verdict.VIOLATED, Verdict.ERROR, Verdict.INCONCLUSIVE, Verdict.NOT_REFUTED, Verdict.SUPPORTED, Verdict.CERTIFIED)
]


def markdown(
    entries: Sequence[Entry], *, title: str, command: str | None, environment: dict[str, str], together: Family | None, overview: str | None
) -> str:
    """The whole report.

    Parameters
    ----------
    entries : sequence of Entry
        The audits, in the order of the tables and cards.
    title, command, environment : str, str or None, dict
        The report's head and foot.
    together : Family or None
        The audits judged as one family, if there are several.
    overview : str or None
        File of the plot over all audits.
    """
    lines = [f"# {prose(title)}", "", *_verdict(entries), "", *_how_sure(entries, together), *_what_to_do(entries)]
    lines += ["## Summary", "", *_summary(entries), ""]
    if overview:
        lines += [f"![Certified over claimed, all audits]({overview})", ""]
    lines += [*_legend(entries), "## Audits", ""]
    for entry in entries:
        lines += card(entry)
    lines += ["## Run", ""]
    if command:
        lines += ["```", " ".join(command.split()).replace("```", "'''"), "```", ""]
    lines += table(("", ""), [(prose(name), prose(value)) for name, value in environment.items()])
    return "\n".join(lines).rstrip() + "\n"


def _verdict(entries: Sequence[Entry]) -> list[str]:
    results = [entry.result for entry in entries]
    found = tally_of_verdicts(results)
    broken = [entry for entry in entries if entry.result.get("verdict") == Verdict.VIOLATED.value]
    if not entries:
        return ["**No audit was run.**"]
    judged = [entry for entry in entries if entry.result.get("expected")]
    if judged:
        right, wrong = ([entry for entry in judged if entry.result.get("right") is kept] for kept in (True, False))
        first = f"**{len(right)} of {len(judged)} {_plural(len(judged), 'verdict')} as expected"
        first += f"; wrong: {_names(wrong)}.**" if wrong else ".**"
        rest = [f"{len(judged) - len(right) - len(wrong)} not settled"] if len(judged) > len(right) + len(wrong) else []
        rest += [f"{len(entries) - len(judged)} with nothing to compare with"] if len(entries) > len(judged) else []
        first += f" Besides, {' and '.join(rest)}." if rest else ""
    elif broken:
        first = f"**VIOLATED in {len(broken)} of {len(entries)} {_plural(len(entries), 'audit')}: {_names(broken)}.**"
    elif found["NOT_REFUTED"] + found["SUPPORTED"] + found["CERTIFIED"] == 0:
        first = "**No verdict was reached: nothing is known of these promises.**"
    else:
        first = f"**No violation found in {len(entries)} {_plural(len(entries), 'audit')}.**"
    words = [
        f"{n} {verdict(name).lower()}" for name, n in found.items() if n or name not in (Verdict.CERTIFIED.value, Verdict.SUPPORTED.value)
    ]
    lines = [first, "", "Verdicts: " + ", ".join(words) + "."]
    leaky = [entry for entry in entries if violated_in_bits(entry.result)]
    if leaky:
        lines[-1] += f" Apart from these, the low bits of the outputs break the claim in {len(leaky)}: {_names(leaky)}."
    worst = max(broken, key=lambda entry: _ratio(entry.result) or 0.0, default=None)
    if worst is not None and _ratio(worst.result) is not None:
        result = worst.result
        value = beyond(result.get("parameter", "epsilon"), result.get("parameter_lower"))
        lines += ["", f"Largest: {code(worst.name)}, {value} certified where {code(result.get('claim'))} is claimed."]
    return lines


def _how_sure(entries: Sequence[Entry], together: Family | None) -> list[str]:
    if together is None:
        return []
    size, error = len(together.adjusted), f"{together.error:g}"
    head = f"How sure: each verdict stands at the confidence in its card. Judged together ({size} p-values, Holm), "
    if together.refuted:
        text = f"the {_plural(len(together.refuted), 'claim')} of {_names([entries[i] for i in together.refuted])} "
        text += f"{'is' if len(together.refuted) == 1 else 'are'} refuted; "
        text += f"the probability that any such refutation is false is at most {error}."
    else:
        text = f"no claim is refuted at a family-wise error of {error}."
    if together.alone:
        names = _names([entries[i] for i in together.alone])
        text += f" {names}: violated at the confidence of one audit, not in the family; a replay of the witness, on fresh runs, settles it."
    return [head + text, ""]


def _what_to_do(entries: Sequence[Entry]) -> list[str]:
    verdicts = {entry.result.get("verdict") for entry in entries}
    steps = []
    if any(entry.witness_file for entry in entries):
        files = [entry.witness_file for entry in entries if entry.witness_file]
        more = ", ..." if len(files) > 1 else ""
        steps.append(f"replay the {_plural(len(files), 'witness', 'witnesses')} (`dpwitness replay {files[0]}`{more})")
    known = any(entry.result.get("expected") for entry in entries)  # a suite: mechanisms that are wrong on purpose
    if Verdict.VIOLATED.value in verdicts and not known:
        steps.append("repair or withdraw what is violated before anything is released under its claim")
    if any(entry.result.get("right") is False for entry in entries):
        steps.append("look at what is wrong: the tool or the known truth errs there")
    if any(violated_in_bits(entry.result) for entry in entries) and not known:
        steps.append("round floating-point outputs to a grid")
    if verdicts & {Verdict.ERROR.value, Verdict.INCONCLUSIVE.value}:
        steps.append("run again what ended without a verdict")
    if not steps and entries:
        steps.append("nothing has to change on this evidence; the column `detectable` says which violations it could have missed")
    return [f"What to do: {'; '.join(steps)}.", ""] if steps else []


def _summary(entries: Sequence[Entry]) -> list[str]:
    header = ["audit", "claim", "verdict", "certified", "limit", "certified / limit", "detectable", "low bits", "trials"]
    ranked = sorted(entries, key=lambda entry: _rank(entry.result.get("verdict")))
    rows = [_row(entry) for entry in ranked]
    if any(_enclosed(entry.result) for entry in ranked):  # next to what was certified
        header.insert(4, "enclosure")
        rows = [(*row[:4], _enclosed(entry.result) or "-", *row[4:]) for row, entry in zip(rows, ranked, strict=True)]
    if any(entry.result.get("expected") for entry in ranked):  # beside what was found
        header.insert(2, "expected")
        rows = [(*row[:2], prose(entry.result.get("expected") or "-"), *row[2:]) for row, entry in zip(rows, ranked, strict=True)]
    if any(entry.result.get("test") for entry in ranked):
        header.insert(1, "test")
        rows = [(row[0], code(entry.result.get("test") or "-"), *row[1:]) for row, entry in zip(rows, ranked, strict=True)]
    return table(header, rows)


def _enclosed(result: Json) -> str:
    """The exact parameter of the pair, from below and from above, where it was asked for."""
    found = result if result.get("kind") == "white box" else result.get("enclosure")
    if not found or result.get("verdict") == Verdict.ERROR.value:
        return ""
    return enclosure(found) if "parameter_lower" in found else "no density"


def _measured(result: Json) -> str | None:
    """What results that certify no parameter have to show."""
    if result.get("kind") == "sensitivity":
        return f"{figure(result.get('ratio_lower'), 6)} of the bound"
    if result.get("kind") == "utility":
        return f"{figure(result.get('estimate'))} in [{figure(result.get('lower'))}, {figure(result.get('upper'))}]"
    return None


def _row(entry: Entry) -> tuple[str, ...]:
    result = entry.result
    least = result.get("parameter_lower", result.get("epsilon_lower"))
    limit, bits = number(result.get("limit")), result.get("bit_level")
    value = None if result.get("verdict") == Verdict.ERROR.value else number(least)
    share = f"{value / limit:.1%}" if limit and value is not None else "-"
    symbol = result.get("parameter", "epsilon")
    shown = verdict(result.get("verdict"))
    accepted = " (accepted)" if result.get("accepted") else ""
    return (
        f"[{code(entry.name)}](#{entry.slug})",
        code(result["claim"]) if result.get("claim") else "-",
        (f"**{shown}**" if result.get("verdict") == Verdict.VIOLATED.value else shown) + accepted,
        _measured(result) or (beyond(symbol, least) if value is not None else "-"),
        figure(limit),
        share,
        figure(result.get("detectable")) if value is not None else "-",
        verdict(bits["verdict"]) if bits else "-",
        count(result.get("trials") or result.get("evaluations") or result.get("runs")),
    )


def _legend(entries: Sequence[Entry]) -> list[str]:
    if not any(entry.result.get("kind") == "black box" for entry in entries):
        return []
    exact = "*enclosure*: the exact parameter of the pair, from the output density. " if any(_enclosed(e.result) for e in entries) else ""
    return [
        f"{exact}*certified*: the true parameter is larger than this, at the stated confidence. *limit*: the median of what the best "
        "possible test certifies with as many trials, where the law is known; half of such tests pass it. *detectable*: a violation this "
        "large, of the kind that the event shows, would have been found with probability 0.9; one of another kind, such as a raw value in "
        "one of 1e4 runs, is not covered by it. *low bits*: the verdict on floating-point bits, which stands apart. A black-box "
        "audit finds violations or finds none; it proves no promise kept.",
        "",
    ]


def _rank(found: Any) -> int:
    return _SEVERITY.index(found) if found in _SEVERITY else len(_SEVERITY)


def _ratio(result: Json) -> float | None:
    claim, least = claim_of(result), number(result.get("parameter_lower"))
    return least / claim.parameter if claim and least is not None else None


def _names(entries: Sequence[Entry]) -> str:
    shown = ", ".join(code(entry.name) for entry in entries[:10])
    return shown + (f" and {len(entries) - 10} more" if len(entries) > 10 else "")


def _plural(n: int, one: str, many: str = "") -> str:
    return one if n == 1 else many or f"{one}s"
