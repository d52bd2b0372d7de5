"""Proof objects of claims over boxes: lists of cells, each with the bound that settles its sign.

``python -m dpwitness.benchmarks.proofs.proof_objects.objects check FOLDER...`` checks the objects
in folders without flint: the excess of each claim is computed again with the intervals of
`intervals`, on each cell, and the cells must cover the domain. ``write FOLDER`` makes the objects
with flint, ``write-large FOLDER`` those that are too large to be stored.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpwitness.proofs_checks.engine.enclosures import Box
    from dpwitness.proofs_checks.engine.finding import Declaration

LARGE = 100_000  # bytes; larger objects are made again for a check, and not stored


@dataclass(frozen=True, slots=True)
class Checked:
    """Result of the check of one proof object."""

    id: str
    problem: str  # why the object does not prove its claim; empty if it does
    cells: int = 0
    refined: int = 0  # cells that were divided further


def proof_object(declared: Declaration) -> dict[str, Any] | None:
    """Return the proof object of a claim over a box; None if branch and bound does not settle the
    claim.
    """
    from dpwitness.proofs_checks.engine.finding import ClaimVerdict
    from dpwitness.proofs_checks.engine.ledger import settle

    evidence = settle(declared).evidence
    signs = evidence.signs
    if signs is None or evidence.verdict is ClaimVerdict.INCONCLUSIVE:
        return None
    failing = signs.counterexample
    cells: list[dict[str, Any]]
    if failing is not None and signs.counterexample_value is not None:
        cells = [
            {"box": list(_ranges(failing).values()), "above": signs.counterexample_value.lower}
        ]
    else:
        cells = [
            {"box": list(_ranges(cell).values()), "below": value.upper}
            for cell, _, value in signs.settled
        ]
    return {
        "id": declared.id,
        "holds": failing is None,
        "domain": _ranges(declared.domain),
        "cells": cells,
    }


def proof_objects() -> Iterator[tuple[str, dict[str, Any] | None]]:
    """Yield the id and the proof object of every claim over a box."""
    from dpwitness.proofs_checks.engine.ledger import declarations

    for id, declared in declarations().items():
        if declared.boxed:
            yield id, proof_object(declared)


def check_object(found: dict[str, Any]) -> Checked:
    """Check a proof object with the arithmetic that is loaded as `flint`."""
    from dpwitness.proofs_checks.engine.enclosures import Box
    from dpwitness.proofs_checks.engine.ledger import declarations

    id = found["id"]
    declared = declarations().get(id)
    if declared is None or not declared.boxed or _ranges(declared.domain) != found["domain"]:
        return Checked(id, "no claim over this domain is known")
    boxes = [
        Box(**dict(zip(declared.domain, map(tuple, cell["box"]), strict=True)))
        for cell in found["cells"]
    ]
    if not found["holds"]:
        return Checked(id, _problem_of_counterexample(declared, boxes), 1)
    try:
        refined = sum(_pieces(declared, box) - 1 for box in boxes)
    except ArithmeticError as error:
        return Checked(id, str(error), len(boxes))
    if not all(cell["below"] <= 0 for cell in found["cells"]):
        return Checked(id, "a stated bound is positive", len(boxes))
    is_covered = _covers(declared.domain, {repr(box) for box in boxes})
    return Checked(
        id, "" if is_covered else "the cells do not cover the domain", len(boxes), refined
    )


def _problem_of_counterexample(declared: Declaration, boxes: list[Box]) -> str:
    """Return why a cell does not refute a claim; empty if it does."""
    is_inside = len(boxes) == 1 and all(
        declared.domain[name][0] <= low <= high <= declared.domain[name][1]
        for name, (low, high) in boxes[0].items()
    )
    return (
        ""
        if is_inside and declared.function(**boxes[0].balls()).lower > 0
        else "the counterexample is not confirmed"
    )


def _pieces(declared: Declaration, box: Box) -> int:
    """Return into how many parts a cell was divided to prove that the excess is at most 0. Raise
    ArithmeticError if the proof fails.
    """
    pending, settled = [box], 0
    while pending:
        cell = pending.pop()
        if declared.function(**cell.balls()).upper <= 0:
            settled += 1
        else:
            halves = cell.halves()
            # the checker rounds differently: it divides a cell with an open sign into 64 at most
            if halves is None or settled + len(pending) >= 64:
                raise ArithmeticError(f"the sign is open on {cell}")
            pending.extend(halves)
    return settled


def _covers(domain: Box, cells: set[str]) -> bool:
    """Return whether a box is one of the cells, or both of its halves are covered."""
    pending = [domain]
    while pending:
        box = pending.pop()
        if repr(box) not in cells:
            halves = box.halves()
            if halves is None:
                return False
            pending.extend(halves)
    return True


def _ranges(box: Box) -> dict[str, list[float]]:
    return {name: [float(low), float(high)] for name, (low, high) in box.items()}


def write(folder: str, large: bool = False) -> int:
    """Write the objects of at most `LARGE` bytes to a folder, or those that are larger; return the
    exit code.
    """
    Path(folder).mkdir(parents=True, exist_ok=True)
    missing = []
    for id, found in proof_objects():
        text = "" if found is None else json.dumps(found, separators=(",", ":")) + "\n"
        if not text:
            missing.append(id)
        elif (len(text) > LARGE) == large:
            (Path(folder) / f"{id}.json").write_text(text, encoding="utf-8")
    if missing:
        print(f"no proof: {', '.join(missing)}")
    return int(bool(missing))


def check(folders: Sequence[str]) -> int:
    """Check all objects of the folders without flint, print the refused ones and the numbers, and
    return the exit code.
    """
    from dpwitness.benchmarks.proofs.proof_objects.intervals import as_flint

    sys.modules["flint"] = as_flint()
    accepted, refused, cells, refined = 0, 0, 0, 0
    for path in sorted(path for folder in folders for path in Path(folder).glob("*.json")):
        try:
            result = check_object(json.loads(path.read_text(encoding="utf-8")))
        except (NotImplementedError, AttributeError, TypeError, KeyError, ValueError) as error:
            result = Checked(path.stem, f"{type(error).__name__}: {error}")
        if result.problem:
            refused += 1
            print(f"REFUSED {result.id}: {result.problem}", flush=True)
        else:
            accepted, cells, refined = accepted + 1, cells + result.cells, refined + result.refined
    print(
        f"{accepted} proof objects of claims accepted without flint, with {cells} cells and "
        f"{refined} more by division; {refused} refused"
    )
    return int(refused > 0 or accepted == 0)


def main(command: str, *folders: str) -> int:
    """Run a command of the module and return the exit code."""
    return (
        check(folders) if command == "check" else write(folders[0], large=command == "write-large")
    )


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
