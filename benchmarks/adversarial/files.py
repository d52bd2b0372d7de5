"""Attacks with files: stores that were damaged or belong to changed mechanisms, reports with edited
conclusions, witnesses whose counts do not imply their bound, and witnesses that are mutated and
sealed again for the kernel.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import sqlite3
import tempfile
import types
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator

from dpwitness import InvalidArgument, Verdict, audit, replay
from dpwitness.auditors.witnesses.seals import seal
from dpwitness.benchmarks.adversarial.attack import PAIR, Attack, refusal, response, seed_of
from dpwitness.benchmarks.kernel.fuzzer import fuzz
from dpwitness.mechanisms import PureDP

MODULE = types.ModuleType("attack_settings")  # in place of a module that the mechanism imports
BOX: dict[str, float] = {}


def _through_module(dataset: Any, size: int, rng: Generator) -> Any:
    """Run randomized response with epsilon from a module attribute."""
    return response(MODULE.epsilon)(dataset, size, rng)


def _through_global(dataset: Any, size: int, rng: Generator) -> Any:
    """Run randomized response with epsilon from a global dictionary."""
    return response(BOX["epsilon"])(dataset, size, rng)


class _SlottedSetting:
    """Object with a setting in a slot, absent from its ``__dict__``."""

    __slots__ = ("epsilon",)

    def __init__(self, epsilon: float) -> None:
        self.epsilon = epsilon


def _settings(rng: Generator, epsilon: float) -> dict[str, Any]:
    """Draw the settings of an audit."""
    return {
        "claim": PureDP(epsilon),
        "pair": PAIR,
        "trials": int(rng.integers(1000, 2001)),
        "seed": seed_of(rng),
        "name": "attack",
    }


def run_command(*arguments: str) -> tuple[int, str]:
    """Run ``dpwitness`` in this process, and return its exit code and its output."""
    from dpwitness.cli import main

    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else 2
    return int(code or 0), out.getvalue()


def stale(rng: Generator) -> str:
    """Run an attack with a mechanism whose privacy parameter changes outside its own code between
    two audits with one store.
    """
    claim, kind = float(rng.uniform(0.3, 1.0)), str(rng.choice(["module", "global", "closure"]))
    setting = _SlottedSetting(claim)

    def through_closure(dataset: Any, size: int, draws: Generator) -> Any:
        return response(setting.epsilon)(dataset, size, draws)

    def change(epsilon: float) -> None:
        MODULE.epsilon = BOX["epsilon"] = setting.epsilon = epsilon  # type: ignore[attr-defined]

    mechanism = {"module": _through_module, "global": _through_global, "closure": through_closure}[
        kind
    ]
    settings = _settings(rng, claim) | {"confidence": 0.999}
    with tempfile.TemporaryDirectory() as folder:
        change(claim)
        audit(mechanism, **settings, store=Path(folder, "s.db"))
        change(claim + 4.0)
        try:
            result_again = audit(mechanism, **settings, store=Path(folder, "s.db"))
        except InvalidArgument:
            return ""
    return (
        ""
        if result_again.verdict in (Verdict.VIOLATED, Verdict.ERROR)
        else f"{result_again.verdict.value} of a mechanism changed through a {kind}"
    )


def _comparable_fields(result_again: Any) -> Any:
    """Return the fields of a result except for times and notes."""
    return {
        key: value
        for key, value in result_again.to_json().items()
        if key not in ("seconds", "cpu_seconds", "notes")
    }


def _check_damaged_store(file: Path, rerun: Callable[[], Any], honest: Any, what: str) -> str:
    """Return "" if a damaged store is refused by `audit` and ``list stores`` or gives the original
    results, else a failure message.
    """
    code, text = run_command("list", "stores", str(file), "--json")
    if code not in (0, 2) or "an unexpected error" in text or "Traceback" in text:
        return f"{what}: list stores ends with code {code}: {text.strip()[:150]}"
    if code == 0 and (
        verdicts := {entry["verdict"] for entry in json.loads(text)} - {honest["verdict"], None}
    ):
        return f"{what}: list stores shows {verdicts}"
    try:
        result_again = rerun()
    except InvalidArgument:
        return ""
    return (
        ""
        if _comparable_fields(result_again) == honest
        else f"{what}: audit gives {result_again.verdict.value} {result_again.parameter_lower:.4g}"
    )


def _audit_damaged_store(damage: Callable[[Generator, Path], str], rng: Generator) -> str:
    """Write a store, damage the file, and check that it is refused or gives the
    original results.
    """
    claim = float(rng.uniform(0.3, 1.0))
    mechanism = response(claim + (4.0 if rng.random() < 0.5 else 0.0))
    settings = _settings(rng, claim)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "s.db")
        honest = _comparable_fields(audit(mechanism, **settings, store=file))
        what = damage(rng, file)
        return _check_damaged_store(
            file, lambda: audit(mechanism, **settings, store=file), honest, what
        )


def _flip_bit(rng: Generator, file: Path) -> str:
    """Flip one random bit of the file."""
    data = bytearray(file.read_bytes())
    used = np.flatnonzero(np.frombuffer(bytes(data), dtype=np.uint8))
    place, bit = int(rng.choice(used)), int(rng.integers(8))
    data[place] ^= 1 << bit
    file.write_bytes(bytes(data))
    return f"bit {bit} of byte {place} flipped"


def _edit_conclusion(rng: Generator, file: Path) -> str:
    """Edit a conclusion in one of the places where a store holds it."""
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        (verdict, result), place = (
            connection.execute("SELECT verdict, result FROM audits").fetchone(),
            int(rng.integers(4)),
        )
        other = "NOT_REFUTED" if verdict == "VIOLATED" else "VIOLATED"
        if place == 0:
            connection.execute("UPDATE audits SET verdict = ?", (other,))
            return "verdict edited"
        if place == 1:
            edited = json.loads(result)
            key = str(
                rng.choice(["verdict", "parameter_lower", "epsilon_lower", "p_value", "confidence"])
            )
            edited[key] = other if key == "verdict" else float(rng.uniform(0.01, 0.98))
            connection.execute("UPDATE audits SET result = ?", (json.dumps(edited),))
            return f"{key} of the result edited"
        end = json.loads(
            connection.execute("SELECT value FROM facts WHERE key = 'end 0'").fetchone()[0]
        )
        if place == 2:
            end["tested"][-1]["lower"] = 0.0 if verdict == "VIOLATED" else 9.0
        else:
            counts = end["tested"][-1]["parts"][-1][0]
            counts[0], counts[1] = (
                (counts[0] + counts[1], 0) if verdict != "VIOLATED" else (0, counts[0] + counts[1])
            )
        connection.execute("UPDATE facts SET value = ? WHERE key = 'end 0'", (json.dumps(end),))
        return "bound of the end edited" if place == 2 else "counts of the end edited"


def _audit_response(rng: Generator, leaks: bool) -> tuple[Any, Any]:
    """Return a mechanism and its audit; the mechanism violates its claim if `leaks`."""
    claim = float(rng.uniform(0.3, 1.0))
    mechanism = response(claim + (float(rng.uniform(1.0, 3.0)) if leaks else 0.0))
    trials = int(rng.integers(2000, 4001))
    return mechanism, audit(
        mechanism,
        claim=PureDP(claim),
        pair=PAIR,
        trials=trials,
        confidence=0.999,
        seed=seed_of(rng),
        name="attack",
    )


def edited_report(rng: Generator) -> str:
    """Run an attack with an edited conclusion in audit.json; `report` and `compare` must refuse the
    file.
    """
    from dpwitness.reports import write_report

    leaks = bool(rng.random() < 0.5)
    _, result = _audit_response(rng, leaks)
    with tempfile.TemporaryDirectory() as folder:
        file, new = Path(folder, "old", "audit.json"), Path(folder, "new.json")
        write_report([result], file.parent, title="attack", plots=False)
        document = json.loads(file.read_text(encoding="utf-8"))
        entry, key = (
            document["results"][0],
            str(
                rng.choice(
                    [
                        "verdict",
                        "parameter_lower",
                        "epsilon_lower",
                        "p_value",
                        "confidence",
                        "tally",
                    ]
                )
            ),
        )
        if key == "verdict":
            entry[key] = "NOT_REFUTED" if entry[key] == "VIOLATED" else "VIOLATED"
        elif key == "tally":
            entry["tally"]["correct"], entry["tally"]["wrong"] = (
                entry["tally"]["wrong"],
                entry["tally"]["correct"],
            )
            entry["stages"] = []
        else:
            value = entry[key]
            entry[key] = (
                float(rng.uniform(0.01, 0.9))
                if not value or key != "confidence"
                else value * float(rng.uniform(0.5, 0.95))
            )
        new.write_text(json.dumps(document), encoding="utf-8")
        commands = [
            ("report", new, "--format", "md", "--no-plots", "--report", Path(folder, "out")),
            ("compare", file, new),
        ]
        for command in commands:
            code, text = run_command(*map(str, command))
            if code != 2 or "an unexpected error" in text:
                return (
                    f"{command[0]} takes audit.json with an edited {key} of a "
                    f"{result.verdict.value}: code {code}"
                )
    return ""


def forged_witness(rng: Generator) -> str:
    """Run an attack with a witness whose counts, bound or claim were edited, and whose hash was
    recomputed.
    """
    mechanism, result = _audit_response(rng, True)
    if result.witness is None:
        return ""
    forged = copy.deepcopy(result.witness)
    counts, kind = (
        forged["counts"],
        str(rng.choice(["bound", "counts", "rounds", "claim", "stage", "alpha"])),
    )
    parts = [counts, *counts.get("stages", [])]
    if kind == "bound":
        forged["bound"] *= float(rng.uniform(1.01, 4.0))
    elif kind == "counts":
        for part in parts:
            part["correct"], part["wrong"] = part["wrong"], part["correct"]
    elif kind == "rounds":
        for part in parts:
            part["rounds"] = part["correct"] + part["wrong"] - 1
    elif kind == "claim":
        claim = forged["bound"] * float(rng.uniform(1.05, 3.0))
        forged["claim"], forged["claim_numbers"] = (
            f"pure:{claim:g}",
            [claim, *forged["claim_numbers"][1:]],
        )
    elif kind == "stage":
        parts[-1]["correct"], parts[-1]["wrong"] = 0, parts[-1]["correct"] + parts[-1]["wrong"]
    else:
        counts["alpha"] = counts.get("alpha", 0.001) * 1e-6
    return refusal(
        lambda: replay(seal(forged), mechanism=mechanism), f"a witness with forged {kind}"
    )


def broken_seal(rng: Generator) -> str:
    """Run an attack with an edited witness that keeps its old hash; the replay must refuse it."""
    mechanism, result = _audit_response(rng, True)
    if result.witness is None:
        return ""
    edited = seal(result.witness)
    edited = {
        **edited,
        "bound": edited["bound"] * float(rng.uniform(0.5, 0.99)),
        "confidence": 0.9995,
    }
    return refusal(
        lambda: replay(edited, mechanism=mechanism), "a witness edited after it was sealed"
    )


ATTACKS = (
    Attack("stored verdict of a mechanism that has changed", stale),
    Attack("store with a flipped bit believed", partial(_audit_damaged_store, _flip_bit)),
    Attack(
        "store with an edited conclusion believed", partial(_audit_damaged_store, _edit_conclusion)
    ),
    Attack("audit.json with an edited conclusion believed", edited_report),
    Attack("forged witness accepted", forged_witness),
    Attack("edited witness with its old hash accepted", broken_seal),
    Attack("50 witnesses, mutated or forged, that the kernel may accept", fuzz, runs=1000),
)
