"""Stores of audits: mechanisms that changed behind them, two honest files merged, flipped bits, edited numbers."""

from __future__ import annotations

import contextlib
import io
import json
import sqlite3
import tempfile
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator

from dpwitness import InvalidArgument, Verdict, audit
from dpwitness.bench.adversarial.attack import PAIR, Attack, response, seed_of
from dpwitness.mechanisms import PureDP

MODULE = types.ModuleType("attack_settings")  # stands for a module that the mechanism imports
BOX: dict[str, float] = {}


def _through_module(dataset: Any, size: int, rng: Generator) -> Any:
    return response(MODULE.epsilon)(dataset, size, rng)


def _through_global(dataset: Any, size: int, rng: Generator) -> Any:
    return response(BOX["epsilon"])(dataset, size, rng)


class _Held:
    """An object with a setting that its dictionary does not show."""

    __slots__ = ("epsilon",)

    def __init__(self, epsilon: float) -> None:
        self.epsilon = epsilon


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def _settings(rng: Generator, epsilon: float) -> dict[str, Any]:
    return {"claim": PureDP(epsilon), "pair": PAIR, "trials": int(rng.integers(1000, 2001)), "seed": seed_of(rng), "name": "attack"}


def run_command(*arguments: str) -> tuple[int, str]:
    """Run ``dpwitness`` in this process; return its exit code, and what it printed."""
    from dpwitness.cli import main

    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else 2
    return int(code or 0), out.getvalue()


def stale(rng: Generator) -> str:
    """A mechanism whose privacy parameter changes outside of its own code between two audits with one store."""
    claim, kind = float(rng.uniform(0.3, 1.0)), str(rng.choice(["module", "global", "closure"]))
    held = _Held(claim)

    def through_closure(dataset: Any, size: int, draws: Generator) -> Any:
        return response(held.epsilon)(dataset, size, draws)

    def change(epsilon: float) -> None:
        MODULE.epsilon = BOX["epsilon"] = held.epsilon = epsilon  # type: ignore[attr-defined]

    mechanism = {"module": _through_module, "global": _through_global, "closure": through_closure}[kind]
    settings = _settings(rng, claim) | {"confidence": 0.999}
    with _folder() as folder:
        change(claim)
        audit(mechanism, **settings, store=folder / "s.db")
        change(claim + 4.0)
        try:
            found = audit(mechanism, **settings, store=folder / "s.db")
        except InvalidArgument:
            return ""
    return "" if found.verdict in (Verdict.VIOLATED, Verdict.ERROR) else f"{found.verdict.value} of a mechanism changed through a {kind}"


def merged(rng: Generator) -> str:
    """Two stores that hold the same audit, each run by itself, one perhaps to its middle only."""
    epsilon = float(rng.uniform(0.3, 1.0))
    settings, half = _settings(rng, epsilon), bool(rng.random() < 0.5)

    def stop(done: int, planned: int) -> None:
        if half and done > 0.6 * planned:
            raise KeyboardInterrupt

    with _folder() as folder:
        whole = audit(response(epsilon), **settings, store=folder / "a.db")
        audit(response(epsilon), **settings, store=folder / "b.db", progress=stop)
        ways = ("a.db", "b.db") if rng.random() < 0.5 else ("b.db", "a.db")
        code, text = run_command("store", "merge", str(folder / ways[0]), str(folder / ways[1]))
        if code:
            return f"refused to merge {'a finished and a stopped' if half else 'two finished'} store(s): {text.strip()[:200]}"
        again = audit(response(epsilon), **settings, store=folder / ways[0])
    return "" if _content(again) == _content(whole) else "the merged store gives another result"


def _content(found: Any) -> Any:
    """All of a result but times and notes."""
    return {key: value for key, value in found.to_json().items() if key not in ("seconds", "notes")}


def _unharmed(file: Path, again: Callable[[], Any], honest: Any, what: str, export: bool) -> str:
    """Return an empty text if a damaged store is refused, or gives what it gave before; by `audit`, and by ``store ls`` and ``export``."""
    code, text = run_command("store", "ls", str(file), "--json")
    if code not in (0, 2) or "an unexpected error" in text or "Traceback" in text:
        return f"{what}: store ls ends with code {code}: {text.strip()[:150]}"
    if code == 0 and (verdicts := {entry["verdict"] for entry in json.loads(text)} - {honest["verdict"], None}):
        return f"{what}: store ls shows {verdicts}"
    if export and run_command("store", "export", str(file), str(file.parent / "out"))[0] == 0:
        shown = json.loads((file.parent / "out" / "audit.json").read_text(encoding="utf-8"))
        for entry in shown["results"]:
            if any(entry[key] != honest[key] for key in ("verdict", "parameter_lower", "epsilon_lower", "p_value", "confidence")):
                return f"{what}: store export shows other numbers"
    try:
        found = again()
    except InvalidArgument:
        return ""
    return "" if _content(found) == honest else f"{what}: audit gives {found.verdict.value} {found.parameter_lower:.4g}"


def _damaged(rng: Generator, damage: Callable[[Generator, Path], str], export: bool = False) -> str:
    claim = float(rng.uniform(0.3, 1.0))
    mechanism = response(claim + (4.0 if rng.random() < 0.5 else 0.0))
    settings = _settings(rng, claim)
    with _folder() as folder:
        file = folder / "s.db"
        honest = _content(audit(mechanism, **settings, store=file))
        what = damage(rng, file)
        return _unharmed(file, lambda: audit(mechanism, **settings, store=file), honest, what, export)


def _flip(rng: Generator, file: Path) -> str:
    data = bytearray(file.read_bytes())
    used = np.flatnonzero(np.frombuffer(bytes(data), dtype=np.uint8))
    place, bit = int(rng.choice(used)), int(rng.integers(8))
    data[place] ^= 1 << bit
    file.write_bytes(bytes(data))
    return f"bit {bit} of byte {place} flipped"


def _edit(rng: Generator, file: Path) -> str:
    """Change a conclusion in one of the places where a store holds it."""
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        (verdict, result), place = connection.execute("SELECT verdict, result FROM audits").fetchone(), int(rng.integers(4))
        other = "NOT_REFUTED" if verdict == "VIOLATED" else "VIOLATED"
        if place == 0:
            connection.execute("UPDATE audits SET verdict = ?", (other,))
            return "verdict edited"
        if place == 1:
            edited = json.loads(result)
            key = str(rng.choice(["verdict", "parameter_lower", "epsilon_lower", "p_value", "confidence"]))
            edited[key] = other if key == "verdict" else float(rng.uniform(0.01, 0.98))
            connection.execute("UPDATE audits SET result = ?", (json.dumps(edited),))
            return f"{key} of the result edited"
        end = json.loads(connection.execute("SELECT value FROM facts WHERE key = 'end 0'").fetchone()[0])
        if place == 2:
            end["tested"][-1]["lower"] = 0.0 if verdict == "VIOLATED" else 9.0
        else:
            counts = end["tested"][-1]["parts"][-1][0]
            counts[0], counts[1] = (counts[0] + counts[1], 0) if verdict != "VIOLATED" else (0, counts[0] + counts[1])
        connection.execute("UPDATE facts SET value = ? WHERE key = 'end 0'", (json.dumps(end),))
        return "bound of the end edited" if place == 2 else "counts of the end edited"


def flipped(rng: Generator) -> str:
    """One bit of a store's file flipped."""
    return _damaged(rng, _flip)


def edited(rng: Generator) -> str:
    """A verdict, a bound or counts of a store edited."""
    return _damaged(rng, _edit, export=True)


ATTACKS = (
    Attack("stored verdict of a mechanism that has changed", stale, runs=200),
    Attack("honest stores of one audit refused by merge", merged, runs=200),
    Attack("store with a flipped bit believed", flipped, runs=200),
    Attack("store with an edited conclusion believed", edited, runs=150),
)
