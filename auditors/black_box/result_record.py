"""State of a finished audit as JSON: the data for its result, and for resuming it with an extension."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpwitness.auditors.black_box.finalize import build_result
from dpwitness.auditors.black_box.pair_exercise import Seen
from dpwitness.auditors.black_box.state import AuditState, PairTest
from dpwitness.auditors.events.detection import ScoreLaw
from dpwitness.auditors.events.histogram import EventHistogram
from dpwitness.auditors.events.rule_reader import read_event
from dpwitness.auditors.results.audit_result import BitLevel, PairScore
from dpwitness.auditors.results.recompute import Basis, recompute_bounds
from dpwitness.auditors.results.verdicts import Verdict
from dpwitness.auditors.statistics.certificate import Tally
from dpwitness.auditors.statistics.combination import Part
from dpwitness.auditors.storing.audit_records import AuditLedger
from dpwitness.mechanisms.core.json_codec import from_jsonable, to_jsonable
from dpwitness.mechanisms.core.json_reader import Json
from dpwitness.mechanisms.core.validation import InvalidArgument
from dpwitness.mechanisms.data.pairs import Pair

_STATE_FIELDS = ("done", "planned", "best", "extensions", "probe", "shared")  # plain fields of `AuditState`
_TEST_FIELDS = ("alpha", "planned", "method", "lower", "p_value", "epsilon", "stopped")  # numeric and text fields of `PairTest`


def told(state: AuditState, pairs: Sequence[Pair]) -> Json:
    """Return the state of an audit on these pairs as JSON."""
    place = {id(pair): number for number, pair in enumerate(pairs)}
    level = state.bit_level
    return {
        **{name: getattr(state, name) for name in _STATE_FIELDS},
        "seconds": state.took,
        "notes": state.notes,
        "single": sorted(state.single),
        "marks": [f"{mark:x}" for mark in state.repeats.kept()],
        "seen": dataclasses.astuple(state.seen),
        "pairs": [[place[id(score.pair)], to_jsonable(score.expected), score.confirmed] for score in state.pairs],
        "tested": [_test_to_json(tested, place[id(tested.pair)]) for tested in state.tested],
        "bits": level
        and {
            "verdict": level.verdict.value,
            "lower": to_jsonable(level.epsilon_lower),
            "pair": None if level.pair is None else place[id(level.pair)],
            "event": level.event and level.event.to_json(),
            "tally": level.tally and list(dataclasses.astuple(level.tally)),
            "alpha": level.alpha,
            "lost": level.lost,
        },
    }


def restore(state: AuditState, pairs: Sequence[Pair], data: Json) -> None:
    """Restore the state of an audit from the JSON that `told` returned."""
    for name in _STATE_FIELDS:
        setattr(state, name, data[name])
    state.seconds = data["seconds"]
    state.notes, state.single = list(data["notes"]), set(data["single"])
    state.repeats.add(int(mark, 16) for mark in data["marks"])
    state.seen = Seen(*data.get("seen", ()))
    state.pairs = [PairScore(pairs[at], from_jsonable(expected), confirmed) for at, expected, confirmed in data["pairs"]]
    state.tested = [_test_from_json(each, pairs) for each in data["tested"]]
    bits = data["bits"]
    if bits is not None:
        pair, event = bits["pair"], bits["event"]
        state.bit_level = BitLevel(
            Verdict(bits["verdict"]),
            from_jsonable(bits["lower"]),
            None if pair is None else pairs[pair],
            None if event is None else read_event(event),
            None if bits["tally"] is None else Tally(*bits["tally"]),
            bits["alpha"],
            bits["lost"],
        )


def _test_to_json(tested: PairTest, place: int) -> Json:
    """Return the JSON of a tested pair; `place` is its index in the list of pairs."""
    law, picture = tested.law, tested.picture
    return {
        **{name: to_jsonable(getattr(tested, name)) for name in _TEST_FIELDS},
        "pair": place,
        "event": tested.event.to_json(),
        "parts": [[list(dataclasses.astuple(part.tally)), part.weight, part.lost] for part in tested.parts],
        "looks": [[runs, to_jsonable(bound)] for runs, bound in tested.looks],
        "basis": tested.basis and tested.basis.to_json(),
        "law": law and [to_jsonable(law.mass), to_jsonable(law.loss), law.size],
        "picture": picture and {field.name: to_jsonable(getattr(picture, field.name)) for field in dataclasses.fields(picture)},
    }


def _test_from_json(data: Json, pairs: Sequence[Pair]) -> PairTest:
    """Return the tested pair from its JSON."""
    plain: dict[str, Any] = {name: from_jsonable(data[name]) for name in _TEST_FIELDS}
    law, picture = data["law"], data["picture"]
    return PairTest(
        pair=pairs[data["pair"]],
        event=read_event(data["event"]),
        parts=[Part(Tally(*tally), weight, lost) for tally, weight, lost in data["parts"]],
        basis=data["basis"] and Basis.from_json(data["basis"]),
        looks=[(runs, from_jsonable(bound)) for runs, bound in data["looks"]],
        law=None if law is None else ScoreLaw(np.asarray(from_jsonable(law[0])), np.asarray(from_jsonable(law[1])), law[2]),
        picture=None if picture is None else EventHistogram(**{name: from_jsonable(value) for name, value in picture.items()}),
        **plain,
    )


def end(state: AuditState, pairs: Sequence[Pair], number: int) -> None:
    """Write the final state of the plan, or of an extension, to the store."""
    if state.ledger is not None:
        state.ledger.end(number, told(state, pairs))


def require_counts_agree(state: AuditState) -> None:
    """Raise InvalidArgument unless bounds and verdict of a restored audit follow from its counts."""
    assert state.ledger is not None
    try:
        recompute_bounds(dataclasses.replace(build_result(state, False, ""), mechanism=None).to_json())
    except InvalidArgument as error:
        raise InvalidArgument(f"store is damaged or edited, got {state.ledger.store.path}: {error}") from None


def totals(ledger: AuditLedger, longer: int) -> list[int]:
    """Return the total number of runs after each extension up to `longer`, which is added to the stored list if it is new.

    Raises
    ------
    InvalidArgument
        If the audit is not finished, or `longer` is not in the list and does not exceed the total
        number of planned runs.
    """
    known: list[int] = ledger.value("extensions", [])
    if longer not in known:
        least = known[-1] if known else ledger.entry.planned
        if ledger.entry.verdict is None:
            raise InvalidArgument(f"audit: extend_to needs an audit that has come to its end, which that in {ledger.store.path} has not")
        if longer <= least:
            raise InvalidArgument(f"audit: extend_to must be above the {least:,} runs that are planned already, got {longer:,}")
        known = [*known, longer]
        ledger.put("extensions", known)
        ledger.reopen(longer)
    return known[: known.index(longer) + 1]
