"""Kinds of audits: all that reports, witness files and replays know about the results of a kind;
and the facts of written results that all kinds share: claim, relation, pair and run.

A kind is declared once, in the room of its audit. Readers of written results ask `kind_of` and name
no kind themselves. A new kind of audit is one file with a `Result` and a `Kind`, which `register`
makes known. The kinds of this package are found by the table below, so that only those in use are
loaded.

A written result may have been edited by anyone. Where a result holds counts, its bounds and its
verdict must follow from them: the functions at the end raise InvalidArgument for a contradiction.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, NamedTuple, NoReturn

from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.core.claims import Claim, exact_claim, parse_claim
from dpwitness.core.datasets.relations import describe_relation, parse_relation
from dpwitness.core.values.json_reader import Json, Rule, short_json
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.core.values.wording import dataset, differences, figure, format_times, number

BOUND_TOLERANCE = 1e-6  # relative difference between a stated bound and a computed one
CardTable = tuple[Sequence[str], list[list[str]], Sequence[int]]


class Fact(NamedTuple):
    """A line of a card: label, text, and whether the text is shown as code."""

    label: str
    text: str
    code: bool = False


Facts = list[Fact]


def claim_of(result: Json) -> Claim | None:
    """Return the claim that a result was tested against; None if the result has no claim that can
    be parsed.
    """
    text, numbers = result.get("claim"), result.get("claim_numbers")
    try:
        return (
            (exact_claim(text, numbers) if isinstance(numbers, list) else parse_claim(text))
            if isinstance(text, str)
            else None
        )
    except InvalidArgument:
        return None


def claim_facts(result: Json) -> Facts:
    """Return the claim, and the relation with its meaning."""
    relation = explained_relation(str(result.get("relation") or ""))
    return [Fact("claim", str(result.get("claim") or ""), code=True), Fact("relation", relation)]


def explained_relation(relation: str) -> str:
    """Return a relation with its meaning; an unknown relation has no meaning."""
    meaning = describe_relation(relation)
    return f"{relation}: {meaning}" if meaning else relation


def pair_facts(result: Json) -> Facts:
    """Return both datasets of a result's pair, their difference, and why they are neighbors."""
    pair = result.get("pair")
    if not pair:
        return []
    relation = str(pair.get("relation", ""))
    checked = not describe_relation(relation) or parse_relation(relation).checked
    neighbors = (
        f"checked to be {relation} neighbors"
        if checked
        else f"stated to be neighbors ({relation}), not checked here"
    )
    return [
        Fact("D0", dataset(pair["d0"]), code=True),
        Fact("D1", dataset(pair["d1"]), code=True),
        Fact("where they differ", differences(pair["d0"], pair["d1"])),
        Fact("why this pair", f"{pair.get('why', '')}; {neighbors}"),
    ]


def run_facts(result: Json) -> Facts:
    """Return the facts of a result's run: seed, environment and time."""
    seed = result.get("seed")
    return [
        Fact("seed", "" if seed is None else str(seed), code=True),
        Fact("environment", describe_environment(result)),
        Fact("time", format_times(result.get("seconds"), result.get("cpu_seconds"))),
    ]


def describe_environment(result: Json) -> str:
    """Return the environment of a result, package names and versions, as one line."""
    found = result.get("environment") or {}
    return ", ".join(f"{name} {version}" for name, version in found.items())


def enclosure(result: Json, digits: int = 6) -> str:
    """Return the enclosure of the claim's parameter as ``[lower, upper]``, from a white-box result
    or a black-box result's enclosure.
    """
    ends = [number(result.get(f"parameter_{end}")) for end in ("lower", "upper")]
    return f"[{', '.join(figure(end, digits) for end in ends)}]"


class Measure(NamedTuple):
    """The measured number of a result without a certified parameter: the fields of the number and
    of the two ends of its interval. Its symbol and its form in a table name fields in braces.
    """

    symbol: str
    shown: str
    low: str
    high: str
    words: str

    def fill(self, form: str, result: Json) -> str:
        """Return a form with the fields of a result in place of their names."""
        fields = {key: figure(v, 6) if number(v) is not None else v for key, v in result.items()}
        return form.format_map(defaultdict(lambda: "-", fields))


@dataclass(frozen=True, slots=True)
class Recomputed:
    """Conclusions from the numbers of a written result."""

    # whether the verdict follows from the numbers
    determined: bool = False
    # computed number for each key of the document that was checked
    values: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of audit.

    Attributes
    ----------
    name : str
        The field ``kind`` of results and of witnesses.
    facts : callable
        Facts of the card of a result in JSON.
    table : callable
        Table below the facts of a card: header, rows of plain text, and the numbers of the columns
        that are shown as code; None without rows.
    advice : dict
        Advice by verdict, where it differs from the advice for a black-box audit.
    untested : callable
        Sentences on the properties that audits of this kind do not test, from their results in a
        report.
    topic : {"outputs", "sensitivity", "accounting", "utility"}
        Part of an evidence sheet.
    certifies : bool
        Whether a result may have the verdict CERTIFIED or SUPPORTED.
    rule : str
        Rule that a violated result breaks.
    suspicion : str
        Rule that findings break without a violation; empty if the kind has no such findings.
    findings : callable
        Text and place, ``FILE:LINE`` or empty, of each finding of `suspicion`.
    measure : Measure or None
        Measured number of a result that certifies no parameter.
    headline : callable or None
        Headline that follows from the numbers of a result.
    fields : dict
        Rules of the kind's own fields in a written result.
    recompute : callable
        Checks that bounds and verdict of a result in JSON follow from its own numbers. Raises
        InvalidArgument if they contradict each other.
    read : callable or None
        Reads and checks a witness from its JSON, the name of its file, and a resolver of classes,
        before its target is looked for.
    witness : tuple of dict, or None
        Rules of the optional and of the required fields of witnesses, in addition to the fields of
        all kinds; None for a kind without witnesses.
    replay : callable or None
        ``replay(case, subject, options)`` runs a witness again: a `replay.Replay`, the mechanism or
        function, and `replay.RunOptions`. Returns the result, a note on the replayed part, and
        notes on the claim.
    again : str
        How a replay obtains the verdict.
    runs : bool
        Whether a replay runs the target of the witness.
    draws : bool
        Whether a replay depends on a seed and a confidence.
    first_look : module or None
        Traced runs before a black-box audit (`traces.first_look`).
    least_confidence : float
        Least default confidence of a replay: the author of the witness chose the recorded one.
    """

    name: str
    facts: Callable[[Json], Facts] = lambda result: []
    table: Callable[[Json], CardTable | None] = lambda result: None
    advice: Mapping[str, str] = field(default_factory=dict)
    untested: Callable[[list[Json]], list[str]] = lambda results: []
    topic: str = "outputs"
    certifies: bool = False
    rule: str = "VALUE"
    suspicion: str = ""
    findings: Callable[[Json], list[tuple[str, str]]] = lambda result: []
    measure: Measure | None = None
    headline: Callable[[Json], str | None] = lambda result: None
    fields: Mapping[str, Rule] = field(default_factory=dict)
    recompute: Callable[[Json], Recomputed] = lambda result: Recomputed()
    read: Callable[[Json, str], Any] | None = None
    witness: tuple[Mapping[str, Rule], Mapping[str, Rule]] | None = None
    replay: Callable[[Any, Any, Any], tuple[Any, str, tuple[str, ...]]] | None = None
    again: str = "with fresh randomness"
    runs: bool = True
    draws: bool = True
    first_look: Any = None
    least_confidence: float = 0.99


Row = Callable[[Json], Facts]  # facts of a card, of which cards leave out those without text


def line(
    label: str,
    text: Callable[[Json], Any],
    when: Callable[[Json], Any] = lambda result: True,
    code: bool = False,
) -> Row:
    """Return a row of a card with one fact, for the results in which it is known."""
    return lambda result: [Fact(label, str(text(result)), code)] if when(result) else []


def is_measured(result: Json) -> bool:
    """Return whether a result has measured numbers."""
    return result.get("verdict") != Verdict.ERROR.value


def has_finding(result: Json) -> bool:
    """Return whether a result holds a finding: the input or output that breaks the claim."""
    return bool(result.get("finding"))


def figures(result: Json, digits: int, *keys: str) -> list[str]:
    """Return fields of a result as numbers with this number of significant digits."""
    return [figure(result.get(key), digits) for key in keys]


def function_kind(
    name: str,
    rows: Sequence[Row],
    rerun: Callable[[Any, Any, Any], Any],
    replayed: str,
    *,
    verdicts: Callable[[Json], Sequence[str]] = lambda result: (
        "VIOLATED",
        "SUSPECT",
        "NOT_REFUTED",
        "ERROR",
    ),
    recompute: Callable[[Json], Recomputed] = lambda result: Recomputed(),
    **fields: Any,
) -> Kind:
    """Return the kind of an audit of a function, whose replay runs the function again.

    Parameters
    ----------
    name : str
        The field ``kind`` of results and of witnesses.
    rows : sequence of callables
        Facts of the card, before those of the run.
    rerun : callable
        ``rerun(case, function, options)`` returns the result of a witness that is run again.
        Errors of the user's function become an InvalidArgument that names the file.
    replayed : str
        Note on what a replay runs.
    verdicts : callable
        Verdicts that a result may have.
    recompute : callable
        As in `Kind`, for results with one of these verdicts.
    fields
        Other fields of `Kind`.
    """

    def checked(result: Json) -> Recomputed:
        allowed = verdicts(result)
        if result["verdict"] not in allowed:
            raise_damaged(result, "verdict", " or ".join(allowed), result["verdict"])
        return recompute(result)

    return Kind(
        name=name,
        facts=lambda result: [fact for row in (*rows, run_facts) for fact in row(result)],
        recompute=checked,
        replay=lambda case, function, options: (
            case.run_again(function, lambda: rerun(case, function, options)),
            replayed,
            (),
        ),
        **fields,
    )


# name -> module and constant of the kind
_MODULES = {
    "claim": "proofs_checks.engine.finding:KIND",
    "black box": "auditors.audit.kind:KIND",
    "white box": "auditors.density.kind:KIND",
    "trace": "auditors.traces.trace:KIND",
    "canaries": "auditors.canaries.result:KIND",
    "checks": "auditors.checks.runner:KIND",
    "sensitivity": "auditors.functions.sensitivity:KIND",
    "utility": "auditors.functions.utility:KIND",
    "stability": "auditors.functions.kinds:STABILITY",
    "accountant": "auditors.functions.kinds:ACCOUNTANT",
    "metamorphic": "auditors.functions.kinds:METAMORPHIC",
}
_KINDS: dict[str, Kind] = {}
_UNKNOWN = Kind(name="")


def register(kind: Kind) -> Kind:
    """Make a kind of audit known to reports, witness files and replays, and return it."""
    _KINDS[kind.name] = kind
    return kind


def kind_named(name: Any) -> Kind | None:
    """Return the kind of this name; None if there is none."""
    if not isinstance(name, str):
        return None
    if name in _MODULES and name not in _KINDS:
        module, _, constant = _MODULES[name].partition(":")
        register(getattr(import_module(f"dpwitness.{module}"), constant))
    return _KINDS.get(name)


def kind_of(result: Json) -> Kind:
    """Return the kind of a result in JSON; a kind without facts and checks if it is unknown."""
    return kind_named(result.get("kind")) or _UNKNOWN


def witness_kinds() -> list[str]:
    """Return the names of the kinds that may have witnesses."""
    kinds = (kind_named(name) for name in {**_MODULES, **_KINDS})
    return [kind.name for kind in kinds if kind is not None and kind.witness is not None]


def recompute_bounds(result: Json) -> Recomputed:
    """Recompute the bounds and the verdict of a result in JSON from its own numbers.

    Raises InvalidArgument if a stated bound or verdict contradicts the numbers, or the numbers
    cannot be read.
    """
    name = f"result {result.get('name', '')!r}"
    try:
        return kind_of(result).recompute(result)
    except InvalidArgument as error:
        text = str(error)
        raise InvalidArgument(text if text.startswith("result ") else f"{name}: {text}") from None
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        what = f"has no {error}" if isinstance(error, KeyError) else str(error)
        raise InvalidArgument(f"{name} cannot be read: {what}") from None


def require_stated_value(
    document: Json, key: str, found: float, within: float = BOUND_TOLERANCE
) -> None:
    """Raise InvalidArgument unless the document states the number `found` under `key`."""
    stated = float(document[key])
    if not (
        math.isclose(stated, found, rel_tol=within, abs_tol=1e-9)
        or (math.isnan(stated) and math.isnan(found))
    ):
        raise_contradiction(
            document, f"its counts give {key} = {found:.6g}, but it states {stated:.6g}"
        )


def require_verdict(document: Json, verdict: Verdict, refuted: bool, why: str) -> None:
    """Raise InvalidArgument if a verdict of VIOLATED, SUSPECT or NOT_REFUTED
    contradicts the bound.
    """
    right = Verdict.VIOLATED if refuted else Verdict.NOT_REFUTED
    allowed = (right, Verdict.SUSPECT) if refuted and document.get("guessed") else (right,)
    if (
        verdict in (Verdict.VIOLATED, Verdict.SUSPECT, Verdict.NOT_REFUTED)
        and verdict not in allowed
    ):
        raise_contradiction(
            document, f"{why} gives {right.value}, but the document states {verdict.value}"
        )


def require_allowed_error(document: Json, stated: float, most: float) -> None:
    """Raise InvalidArgument if a test's error exceeds the error that the confidence allows."""
    if not 0 < stated <= most * (1 + 1e-9):
        raise_contradiction(
            document,
            f"its confidence allows an error of {most:.6g}, its counts were tested at {stated:.6g}",
        )


def raise_contradiction(document: Json, what: str) -> NoReturn:
    """Raise InvalidArgument for a document that contradicts its own counts."""
    raise InvalidArgument(f"result {document.get('name', '')!r} is damaged or edited: {what}")


def is_same(first: Any, second: Any) -> bool:
    """Return whether two JSON values are equal, with numbers compared up to rounding."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return set(first) == set(second) and all(is_same(first[key], second[key]) for key in first)
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(is_same, first, second))
    if isinstance(first, int | float) and isinstance(second, int | float):
        return math.isclose(first, second, rel_tol=1e-9)
    return bool(first == second)


def require_field(document: Json, field: str, right: object, recorded: object) -> None:
    """Raise InvalidArgument unless a field has the value that the others give."""
    if recorded != right:
        raise_damaged(document, field, right, recorded)


def raise_damaged(document: Json, field: str, right: object, recorded: object) -> NoReturn:
    """Raise InvalidArgument for a field that should have another value."""
    raise_contradiction(document, f"{field} must be {right}, got {short_json(recorded)}")
