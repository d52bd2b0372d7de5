"""Attacks with files from other people: reports with edited conclusions, and witnesses whose counts
do not imply their bound.
"""

from __future__ import annotations

import copy
import json
import tempfile
from pathlib import Path
from typing import Any

from numpy.random import Generator

from dpwitness import audit, replay
from dpwitness.auditors.witnesses.seals import seal
from dpwitness.benchmarks.adversarial.attack import PAIR, Attack, refusal, response, seed_of
from dpwitness.benchmarks.adversarial.stores import run_command
from dpwitness.mechanisms import PureDP


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
    Attack("audit.json with an edited conclusion believed", edited_report),
    Attack("forged witness accepted", forged_witness),
    Attack("edited witness with its old hash accepted", broken_seal),
)
