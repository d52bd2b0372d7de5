"""Overview of a report: the overall verdict, the confidence, the advice, and a table of all audits,
worst first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dpwitness.auditors.witnesses.facts import claim_of, enclosure
from dpwitness.auditors.witnesses.kinds import kind_of
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.wording import beyond, figure, number
from dpwitness.reports.phrasing.facts import Entry
from dpwitness.reports.phrasing.scope import cost
from dpwitness.reports.phrasing.summary import Family, count_verdicts, violated_in_bits
from dpwitness.reports.phrasing.wording import code, escaped_markdown, link, verdict

SEVERITY = [
    v.value
    for v in (
        Verdict.VIOLATED,
        Verdict.SUSPECT,
        Verdict.ERROR,
        Verdict.INCONCLUSIVE,
        Verdict.NOT_REFUTED,
        Verdict.SUPPORTED,
        Verdict.CERTIFIED,
    )
]


def answer(entries: Sequence[Entry]) -> list[str]:
    """Return the overall verdict of all audits as sentences of markdown, the decisive sentence
    first.
    """
    results = [entry.result for entry in entries]
    found = count_verdicts(results)
    broken = [entry for entry in entries if entry.result.get("verdict") == Verdict.VIOLATED.value]
    if not entries:
        return ["No audit was run."]
    with_expectation = [entry for entry in entries if entry.result.get("expected")]
    if with_expectation:
        right, wrong = (
            [entry for entry in with_expectation if entry.result.get("right") is is_right]
            for is_right in (True, False)
        )
        first = (
            f"{len(right)} of {len(with_expectation)} "
            f"{_plural(len(with_expectation), 'verdict')} as expected"
        )
        first += f"; wrong: {_join_names(wrong)}." if wrong else "."
        rest = (
            [f"{len(with_expectation) - len(right) - len(wrong)} not settled"]
            if len(with_expectation) > len(right) + len(wrong)
            else []
        )
        rest += (
            [f"{len(entries) - len(with_expectation)} with nothing to compare with"]
            if len(entries) > len(with_expectation)
            else []
        )
        first += f" Besides, {' and '.join(rest)}." if rest else ""
    elif broken:
        first = (
            f"VIOLATED in {len(broken)} of {len(entries)} {_plural(len(entries), 'audit')}: "
            f"{_join_names(broken)}."
        )
    elif found.get("SUSPECT"):
        suspects = [
            entry for entry in entries if entry.result.get("verdict") == Verdict.SUSPECT.value
        ]
        first = (
            f"SUSPECT in {len(suspects)} of {len(entries)} {_plural(len(entries), 'audit')} of "
            f"guessed claims: {_join_names(suspects)}."
        )
    elif found["NOT_REFUTED"] + found["SUPPORTED"] + found["CERTIFIED"] == 0:
        first = "No audit reached a verdict: it is unknown whether these claims hold."
    else:
        first = f"No violation found in {len(entries)} {_plural(len(entries), 'audit')}."
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


def family_confidence(entries: Sequence[Entry], together: Family | None) -> str:
    """Return the sentences on Holm's correction over the family of audits; an empty text without a
    family.
    """
    if together is None:
        return ""
    size, error = len(together.adjusted), f"{together.error:g}"
    head = (
        f"How sure: each verdict holds at the confidence in its card. Judged together ({size} "
        "p-values, Holm), "
    )
    if together.refuted:
        text = (
            f"the {_plural(len(together.refuted), 'claim')} of "
            f"{_join_names([entries[i] for i in together.refuted])} "
            f"{'is' if len(together.refuted) == 1 else 'are'} refuted; "
            f"the probability that any such refutation is false is at most {error}."
        )
    else:
        text = f"no claim is refuted at a family-wise error of {error}."
    if together.alone:
        names = _join_names([entries[i] for i in together.alone])
        text += (
            f" {names}: violated at the confidence of one audit, not in the family; a replay of "
            "the witness, on fresh runs, settles it."
        )
    return head + text


def what_to_do(entries: Sequence[Entry]) -> str:
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
class Column:
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


def columns(entries: Sequence[Entry]) -> list[Column]:
    """Return the columns of the table of audits, without optional columns that would be empty."""
    results = [entry.result for entry in entries]
    found = [
        Column("audit", lambda e: link(e.name, e.slug), lambda e: e.name),
        *(
            [Column("test", lambda e: code(e.result.get("test") or "-"))]
            if any(r.get("test") for r in results)
            else []
        ),
        Column("claim", lambda e: code(e.result["claim"]) if e.result.get("claim") else "-"),
        Column("relation", lambda e: escaped_markdown(e.result.get("relation") or "-")),
        *(
            [Column("expected", lambda e: escaped_markdown(e.result.get("expected") or "-"))]
            if any(r.get("expected") for r in results)
            else []
        ),
        Column("verdict", _format_verdict, lambda e: _rank(e.result.get("verdict"))),
        Column("certified", _format_certified, lambda e: _ratio(e.result)),
    ]
    if any(_format_enclosure(r) for r in results):
        found.append(Column("enclosure", lambda e: _format_enclosure(e.result) or "-"))
    return [
        *found,
        Column(
            "limit",
            lambda e: figure(e.result.get("limit")),
            lambda e: number(e.result.get("limit")),
        ),
        Column(
            "certified / limit",
            lambda e: f"{share:.1%}" if (share := _share(e.result)) is not None else "-",
            lambda e: _share(e.result),
        ),
        Column(
            "detectable",
            lambda e: (
                figure(e.result.get("detectable")) if _lower_bound(e.result) is not None else "-"
            ),
            lambda e: (
                number(e.result.get("detectable")) if _lower_bound(e.result) is not None else None
            ),
        ),
        Column(
            "low bits",
            lambda e: (
                "distinguishable"
                if violated_in_bits(e.result)
                else verdict(bits["verdict"])
                if (bits := e.result.get("bit_level"))
                else "-"
            ),
        ),
        Column("cost", lambda e: cost(e.result), lambda e: number(e.result.get("trials"))),
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
    least = _lower_bound(entry.result)
    return _format_measurement(entry.result) or (
        beyond(entry.result.get("parameter", "epsilon"), least) if least is not None else "-"
    )


def _share(result: Json) -> float | None:
    limit, least = number(result.get("limit")), _lower_bound(result)
    return least / limit if limit and least is not None else None


def _format_enclosure(result: Json) -> str:
    """Format the enclosure of the pair's exact parameter, if the audit computed one."""
    found = result if "parameter_upper" in result else result.get("enclosure")
    if not found or result.get("verdict") == Verdict.ERROR.value:
        return ""
    return enclosure(found) if "parameter_lower" in found else "no density"


def _format_measurement(result: Json) -> str | None:
    """Format the measured number of a result that certifies no parameter; None for other kinds."""
    measure = kind_of(result).measure
    return None if measure is None else measure.fill(measure.words, result)


def legend(entries: Sequence[Entry]) -> str:
    """Return the legend of the table's columns; an empty text without black-box audits."""
    if not any("limit" in entry.result for entry in entries):
        return ""
    enclosed = any(_format_enclosure(entry.result) for entry in entries)
    exact = (
        "*enclosure*: the exact parameter of the pair, from the output density. "
        if enclosed
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
