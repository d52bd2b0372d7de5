"""Witnesses: everything that anyone needs to see a violation again, as JSON, and how to find its mechanism."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpwitness.auditors.events import Event, event_from_json
from dpwitness.mechanisms.jsonable import from_jsonable, to_jsonable
from dpwitness.mechanisms.notions import Claim, parse_claim
from dpwitness.mechanisms.pairs import Pair
from dpwitness.mechanisms.validation import InvalidArgument

if TYPE_CHECKING:
    from dpwitness.auditors.certify_result import CertifyResult
    from dpwitness.auditors.result import AuditResult

__all__ = ["Witness", "describe_target", "load_target", "make_white_box_witness", "make_witness", "read_witness"]

SCHEMA = 1


def describe_target(mechanism: Any) -> dict[str, Any] | None:
    """How to build the mechanism again: module, name and, for a dataclass, its fields. None if it cannot be imported."""
    owner = mechanism if hasattr(mechanism, "__qualname__") else type(mechanism)
    module, name = getattr(owner, "__module__", None), getattr(owner, "__qualname__", "")
    if module in (None, "__main__") or "<" in name:
        return None
    target = {"target": f"{module}:{name}"}
    if owner is mechanism:
        return target
    if not dataclasses.is_dataclass(mechanism):
        return None
    try:
        fields = {f.name: to_jsonable(getattr(mechanism, f.name)) for f in dataclasses.fields(mechanism) if f.init}
    except InvalidArgument:
        return None
    return target | {"kwargs": fields}


def load_target(target: str, kwargs: dict[str, Any] | None = None) -> Any:
    """Import ``MODULE:NAME`` or ``FILE.py:NAME``; a class is built with `kwargs`, and a function is bound to them.

    Raises
    ------
    InvalidArgument
        If module, file or name do not exist, or the keywords do not fit.
    """
    place, _, name = target.rpartition(":")
    if not place or not name:
        raise InvalidArgument(f"target must have the form MODULE:NAME or FILE.py:NAME, got {target!r}")
    found: Any = _import(place, target)
    for part in name.split("."):
        if not hasattr(found, part):
            raise InvalidArgument(f"target must name something in {place}, got {name!r}, which is not there")
        found = getattr(found, part)
    values = {key: from_jsonable(value) for key, value in (kwargs or {}).items()}
    if isinstance(found, type):
        try:
            return found(**values)
        except TypeError as error:
            raise InvalidArgument(f"kwargs must fit {name}: {error}") from None
    if values:
        import functools

        return functools.partial(found, **values)
    return found


def _import(place: str, target: str) -> Any:
    if place.endswith(".py"):
        path = Path(place).resolve()
        if not path.is_file():
            raise InvalidArgument(f"target must name an existing file, got {place!r}")
        if str(path.parent) not in sys.path:
            sys.path.insert(0, str(path.parent))  # so that worker processes find the module by its name
        place = path.stem
    elif str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name is not None and (place == error.name or place.startswith(error.name + ".")):
            raise InvalidArgument(f"target must be importable, got {target!r}: no module named {error.name!r}") from None
        raise


def make_witness(result: AuditResult) -> dict[str, Any] | None:
    """The witness of a violation, at the value level or else at the bit level; None if there is none."""
    from dpwitness.auditors.result import Verdict

    value = result.verdict is Verdict.VIOLATED
    level = result.bit_level
    if value:
        pair, event, tally, bound = result.pair, result.event, result.tally, result.parameter_lower
    elif level is not None and level.verdict is Verdict.VIOLATED:
        pair, event, tally, bound = level.pair, level.event, level.tally, level.epsilon_lower
    else:
        return None
    if pair is None or event is None or tally is None:
        return None
    return _witness(result, "value" if value else "bit", pair, bound) | {
        "event": event.to_json(),
        "description": event.describe(),
        "counts": {"correct": tally.correct, "wrong": tally.wrong, "rounds": tally.rounds, "directions": tally.directions},
        "trials": result.requested,
    }


def make_white_box_witness(result: CertifyResult) -> dict[str, Any] | None:
    """The witness of a violation that the law of the privacy loss shows; None if there is none.

    Its event is {L > `above`}: P(L > t) - e^t P'(L > t) exceeds delta at every t below the lower end.
    """
    from dpwitness.auditors.result import Verdict, strict

    if result.verdict is not Verdict.VIOLATED:
        return None
    worst = result.worst
    output = {"output": strict(worst.output), "ray": strict(worst.ray), "kind": worst.kind, "loss": strict(worst.loss)} if worst else None
    return _witness(result, "white box", result.pair, result.parameter_lower) | {
        "event": {"kind": "loss", "above": strict(result.epsilon_lower), "output": output},
        "description": result.event,
        "route": result.route,
        "trials": result.trials,
    }


def _witness(result: AuditResult | CertifyResult, level: str, pair: Pair, bound: float) -> dict[str, Any]:
    from dpwitness.auditors.result import environment

    return {
        "schema_version": SCHEMA,
        "name": result.name,
        "level": level,
        "target": result.target,
        "claim": str(result.claim),
        "claim_numbers": list(result.claim.numbers),
        "pair": pair.to_json(),
        "bound": bound if math.isfinite(bound) else "inf",
        "confidence": result.confidence,
        "seed": result.seed,
        "versions": environment(),
    }


@dataclasses.dataclass(frozen=True, slots=True)
class Witness:
    """A witness read back."""

    name: str
    level: str
    target: dict[str, Any] | None
    claim: Claim
    pair: Pair
    event: Event | None  # None at the white-box level, where the event is {L > t}
    rounds: int
    confidence: float
    seed: int
    bound: float
    raw: dict[str, Any]


def load_json(source: str | Path | dict[str, Any]) -> tuple[dict[str, Any], str]:
    """What a witness file holds, and its name; InvalidArgument if that is no witness of any kind."""
    if isinstance(source, dict):
        data, name = source, "witness"
    else:
        name = Path(source).name
        try:
            data = json.loads(Path(source).read_text())
        except OSError as error:
            raise InvalidArgument(f"replay: witness file must be readable, got {str(source)!r}: {error.strerror}") from None
        except ValueError as error:
            raise InvalidArgument(f"replay: {name} is no complete JSON file: {error}") from None
    if not isinstance(data, dict) or "schema_version" not in data:
        raise InvalidArgument(f"replay: {name} is no witness: it has no schema_version")
    return data, name


def check_schema(data: dict[str, Any], name: str) -> None:
    """Refuse what a later version wrote."""
    if data["schema_version"] > SCHEMA:
        raise InvalidArgument(
            f"replay: {name} was written by schema {data['schema_version']}, this version reads up to {SCHEMA}; upgrade dpwitness"
        )


def read_witness(source: str | Path | dict[str, Any]) -> Witness:
    """Read a witness from a file or from the dictionary that one holds.

    Raises
    ------
    InvalidArgument
        If the file is missing, truncated, from a newer schema, or lacks a field.
    """
    data, name = load_json(source)
    check_schema(data, name)
    try:
        pair = {key: from_jsonable(value) for key, value in data["pair"].items()}
        kind, white = data["claim"].partition(":")[0], data["level"] == "white box"
        claim = type(parse_claim(data["claim"]))(*data["claim_numbers"][: 1 if kind == "pure" else 2])
        return Witness(
            data["name"],
            data["level"],
            data["target"],
            claim,
            Pair(**pair),
            None if white else event_from_json(data["event"]),
            data["trials"] if white else data["counts"]["rounds"],
            data["confidence"],
            data["seed"],
            float(data["bound"]),
            data,
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise InvalidArgument(f"replay: {name} is no complete witness: {type(error).__name__} {error}") from None
