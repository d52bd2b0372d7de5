"""A few rounds before all others: is there an output at all, does it raise, does it repeat under one seed, is state kept?

One chunk is run three times with the same streams, all in one process, with one and then two calls in between: the replays begin three and
four calls after the one before, so that no period of calls hides. A mechanism that takes its randomness from `rng` gives the same outputs
each time, and draws as much. One that keeps noise, grows it, counts its calls or draws from elsewhere does not.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.random import Generator

from dpwitness.auditors.black_box.type_slip import check_one_sided
from dpwitness.auditors.events.outputs import ONE_RUN, Outputs, encode, opaque_types
from dpwitness.auditors.running.engine import Sides, Stage, run_side, stream
from dpwitness.auditors.running.health import Unfit, check_structure, same_outputs
from dpwitness.auditors.running.rounds import of_this_project
from dpwitness.auditors.running.turns import one_task
from dpwitness.mechanisms.foreign.inside import global_generators
from dpwitness.mechanisms.foreign.inside.runs import told_of_warning
from dpwitness.mechanisms.foreign.inside.wire import text_of
from dpwitness.mechanisms.foreign.target import Target
from dpwitness.mechanisms.terms.protocol import AlwaysRaises, MechanismFailed

_BETWEEN = (1, 2)  # calls between the replays
_SIZE = 8  # of each of them
_WARNINGS = 4  # that are told
_CLOSE = 1e-9  # relative difference of outputs that only the last bits of a computation make

_STATE = (
    "keeps state between rounds or ignores rng "
    "(if it draws from a source that takes no seed, such as `secrets`, add a line to its file: NAME.seeded = False)"
)


@dataclass(frozen=True, slots=True)
class Probed:
    """What the probe saw: outputs (D1, D0) of its chunk, words drawn for them, `rounds` run, and how later stages must run."""

    sides: tuple[Outputs, Outputs]
    words: tuple[int, ...]
    rounds: int
    single: bool
    shared: bool
    notes: tuple[str, ...]


@one_task()
def probe_stage(stage: Stage, seeded: bool) -> Probed:
    """Probe the stage's one chunk, in the process in which this is called. `seeded`: equal streams must give equal outputs.

    Raises
    ------
    MechanismFailed
        Naming what makes the mechanism unfit.
    """
    if of_this_project(stage.run):
        return _probe(stage, seeded)
    before, owner = global_generators.snapshot(), getattr(stage.run, "__self__", None)
    try:
        with warnings.catch_warnings(record=True) as heard:
            warnings.filterwarnings("always", append=True)  # what the mechanism ignores, or turns into an error, stays so
            found = _probe(stage, seeded)
    finally:
        global_generators.restore(before)
    told = owner.warned if isinstance(owner, Target) else [told_of_warning(each) for each in heard or ()]
    return replace(found, notes=(*found.notes, *list(dict.fromkeys(told))[:_WARNINGS]))


def _probe(stage: Stage, seeded: bool, spent: int = 0) -> Probed:
    shown = _shown(stage)
    sides, words, shared = _replay(stage)
    batches, rounds, notes = [[side] for side in sides], spent + stage.rounds, dict[str, None]()
    for calls in _BETWEEN:
        rounds += _check_buffer(stage, calls)
        for call in range(calls):
            batches[0].append(run_side(stage.run, stage.pair.d1, _SIZE, stream(stage.seed, *stage.key, 1, calls, call)))
        again, drawn, _ = _replay(stage)
        rounds += stage.rounds + _SIZE * calls
        for kept, side in zip(batches, again, strict=True):
            kept.append(side)
        if not stage.single and any(side is None or _raises(side) for kept in batches for side in kept):
            return _probe(replace(stage, single=True), seeded, rounds)
        whole = [[side for side in kept if side is not None] for kept in batches]
        check_structure(whole[0], "D1")
        check_structure(whole[1], "D0")
        if _shown(stage) != shown:
            raise MechanismFailed("mechanism changes its dataset in place; it must leave it as it found it")
        if seeded:
            notes.update(dict.fromkeys(_compare(sides, again, words, drawn)))
    assert sides[0] is not None and sides[1] is not None
    _check_output(stage, rounds, sides[0], sides[1])
    check_one_sided(getattr(stage.run, "run", stage.run), stage.pair.d1, stage.pair.d0, (sides[0], sides[1]))
    for side in (sides[0], sides[1]):
        notes.update(dict.fromkeys(opaque_types(side)))
    return Probed((sides[0], sides[1]), words, rounds, stage.single, shared, tuple(notes))


def replay_stage(stage: Stage, probed: Probed) -> None:
    """Run the probe's chunk again once all is done: what the audit has run in between must have left no trace.

    Raises
    ------
    Unfit
        If it has.
    """
    sides, words, _ = _replay(stage)
    _compare(probed.sides, sides, probed.words, words)


def _replay(stage: Stage) -> tuple[Sides, tuple[int, ...], bool]:
    """The stage's chunk, the words drawn from its streams, and whether a global generator was drawn from."""
    if of_this_project(stage.run):
        sides, rngs = stage.flip(0)
        return sides, _words(rngs), False
    with stage.globally_seeded(0):
        before = global_generators.fingerprint()
        sides, rngs = stage.flip(0)
        return sides, _words(rngs), global_generators.fingerprint() != before


def _words(rngs: list[Generator]) -> tuple[int, ...]:
    """64-bit words that SFC64 generators have given: they count them in their state."""
    return tuple(int(rng.bit_generator.state["state"]["state"][3]) for rng in rngs)


def _compare(first: Sides, again: Sides, words: tuple[int, ...], drawn: tuple[int, ...]) -> list[str]:
    """Unfit if two runs with the same streams differ; a note if the last bits do."""
    for a, b in zip(first, again, strict=True):
        if a is None or b is None or not same_outputs(a, b):
            if a is not None and b is not None and _close(a, b):
                return ["outputs under one seed differ in their last bits: counts may not be reproduced"]
            raise Unfit(f"outputs under one seed differ: mechanism {_STATE}")
    if words != drawn:
        raise Unfit(f"two calls with equal generators draw other amounts of randomness: mechanism {_STATE}")
    return []


def _close(a: Outputs, b: Outputs) -> bool:
    same = a.values.shape == b.values.shape and np.array_equal(a.codes, b.codes)
    return same and np.allclose(a.values, b.values, rtol=_CLOSE, atol=0.0, equal_nan=True)


def _check_buffer(stage: Stage, call: int) -> int:
    """Unfit if an output changes once the mechanism is called again; how many rounds that took."""
    if of_this_project(stage.run):
        return 0
    rngs = [stream(stage.seed, *stage.key, 2, call, part) for part in (0, 1)]
    try:
        raw = stage.run(stage.pair.d1, _SIZE, rngs[0])
    except MechanismFailed:
        raise
    except Exception:
        return _SIZE
    kept = encode(raw, _SIZE).copied()
    with contextlib.suppress(Exception):
        stage.run(stage.pair.d0, _SIZE, rngs[1])
    if not same_outputs(kept, encode(raw, _SIZE)):
        raise Unfit("mechanism returns one buffer again and again: an output changes with the next call; return a new array each time")
    return 2 * _SIZE


def _check_output(stage: Stage, rounds: int, *sides: Outputs) -> None:
    """AlwaysRaises if all there is to see is an exception."""
    if not all(_raises(side, all) for side in sides):
        return
    name, told = sorted(name for side in sides for name in side.structures())[0], ""
    try:
        getattr(stage.run, "run", stage.run)(stage.pair.d0, 1, stream(stage.seed, *stage.key, 3))
    except Exception as error:
        told = f": {text_of(error, str)}" + (f"; {ONE_RUN}" if "but 3 were given" in str(error) else "")
    raise AlwaysRaises(f"mechanism always {name}{told}", rounds)


def _raises(side: Outputs, how: Callable[[Any], bool] = any) -> bool:
    return len(side) > 0 and how(name.startswith("raises ") for name in side.structures())


def _shown(stage: Stage) -> str:
    told = stage.pair.to_json()
    return repr([told["d0"], told["d1"]])
