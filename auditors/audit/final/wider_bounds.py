"""Hints on the declaration of a domain: wider bounds where no pair changes the outputs, and
categories where outputs are texts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from dpwitness.auditors.audit.conclude import Findings
from dpwitness.auditors.audit.runner import RoundRunner
from dpwitness.auditors.events.outputs import Outputs
from dpwitness.auditors.search.catalogue import pairs_for
from dpwitness.auditors.workers.engine import MechanismFailed, outputs
from dpwitness.auditors.workers.pair_exercise import difference, exercised
from dpwitness.core.domains import Domain
from dpwitness.core.values.validation import InvalidArgument

_WIDER_PAIRS, _WIDER_ROUNDS, _WIDER_LEVEL = 6, 400, 1e-6


def suggest_wider_domain(runner: RoundRunner, findings: Findings, domain: Domain) -> None:
    """Add a note on wider bounds of a domain that change the outputs, if none of the pairs in the
    declared domain does.

    Pairs outside the declared domain cannot refute the claim.
    """
    parts = findings.test.parts if findings.test else ()
    if (
        exercised(findings.options.claim, parts, runner.seen, max(1, len(findings.pairs)))[0]
        is not False
    ):
        return
    runs = 0
    for wide, text in _wider_domains(domain):
        for number, pair in enumerate(pairs_for(wide)[:_WIDER_PAIRS]):
            # a phase number above those of all extensions
            stage = runner.stage(pair, 1_000_000, number, _WIDER_ROUNDS, _WIDER_ROUNDS)
            runs += _WIDER_ROUNDS
            try:
                sides = [side for found in outputs(stage, runner.executor) for side in found.sides]
            except (MechanismFailed, InvalidArgument):
                continue
            if any(
                one is not None and zero is not None and difference(one, zero) < _WIDER_LEVEL
                for one, zero in sides
            ):
                runner.note(
                    f"no pair of {_domain_text(domain)} changes the outputs; {text} do "
                    f"({runs:,} more runs): declare the domain as "
                    f"{_domain_text(wide)} if such data can occur; pairs outside of the "
                    "declared domain cannot refute the claim"
                )
                return


def suggest_categories(
    runner: RoundRunner, domain: Domain, known: Sequence[tuple[Outputs, Outputs]]
) -> None:
    """Add a note if outputs contain texts although the domain has integers: the integers may be
    labels, of which a rare one matters.
    """
    integer, categories = getattr(domain, "integer", False), getattr(domain, "categories", False)
    if not integer or categories or not any(side.texts for sides in known for side in sides):
        return
    how = '"categories": true' if integer is True else f'"categories": {list(integer)}'
    runner.note(
        "outputs contain texts, and the domain has integers: if the integers are labels "
        f"without an order, add {how} to the domain, "
        "so that pairs with rare labels are tried"
    )


def _wider_domains(domain: Domain) -> Iterator[tuple[Domain, str]]:
    """Yield versions of the domain with wider bounds, and a description of the new data."""
    given: Any = domain
    low, high = getattr(domain, "low", None), getattr(domain, "high", None)
    features = getattr(domain, "features", None)
    for factor in (10.0, 100.0, 10_000.0):
        for down in (False, True):
            if (
                isinstance(low, int | float)
                and isinstance(high, int | float)
                and dataclasses.is_dataclass(domain)
            ):
                ends = _widen_interval(low, high, factor, down)
                changes: list[dict[str, Any]] = [{"low": ends[0], "high": ends[1]}]
                changes += (
                    [changes[0] | {"integer": True}]
                    if getattr(domain, "integer", None) is False
                    else []
                )
                text = f"values down to {ends[0]:g}" if down else f"values up to {ends[1]:g}"
            elif features and dataclasses.is_dataclass(domain):
                changes = [
                    {"features": tuple(_widen_interval(*ends, factor, down) for ends in features)}
                ]
                text = f"features with bounds {factor:g} times as wide"
            else:
                return
            for change in changes:
                try:
                    wide = dataclasses.replace(given, **change)
                except (InvalidArgument, TypeError, ValueError):
                    continue
                yield wide, text + (" (whole numbers)" if change.get("integer") else "")


def _widen_interval(low: float, high: float, factor: float, down: bool) -> tuple[float, float]:
    """Return the interval with its upper (or lower, if `down`) end moved by `factor` times its
    length.
    """
    more = (high - low) * factor
    ends = (low - more if down else low, high if down else low + more)
    whole = isinstance(low, int) and isinstance(high, int)
    return (int(ends[0]), int(ends[1])) if whole else ends


def _domain_text(domain: Domain) -> str:
    """Return a text of the domain with its bounds, without other fields at their default."""
    given: Any = domain
    values = {
        field.name: (getattr(domain, field.name), field.default)
        for field in dataclasses.fields(given)
    }
    text = [
        f"{name}={value!r}"
        for name, (value, default) in values.items()
        if value != default or name in ("low", "high")
    ]
    return f"{type(domain).__name__}({', '.join(text)})"
