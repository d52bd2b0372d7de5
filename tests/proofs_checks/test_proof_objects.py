"""Proof objects of claims: intervals against flint's balls, cells that cover, and objects that are
refused.
"""

import json
from pathlib import Path

import pytest
from flint import arb, ctx

from dpwitness.benchmarks.proofs.proof_objects import objects
from dpwitness.benchmarks.proofs.proof_objects.intervals import Arb
from dpwitness.proofs_checks.engine import Box

STORED = Path(objects.__file__).with_name("stored")


def ball(end):
    sign, mantissa, exponent, _ = end
    return arb(-int(mantissa) if sign else int(mantissa)) * arb(2) ** exponent


@pytest.mark.parametrize("x", [0.017, 0.9, 1.0, 3.75, 11.5, 33.25])
def test_intervals_hold_the_values_of_balls(x):
    with ctx.workprec(400):
        for value in (
            lambda a, of: a.exp() + (-a).exp(),
            lambda a, of: a.expm1() * a.log1p(),
            lambda a, of: a.sqrt() / (a.root(3) + of(3)),
            lambda a, of: a.erfc(),
            lambda a, of: (-a).erfc(),
            lambda a, of: a.gamma(),
            lambda a, of: a.gamma_upper(of(7.5), True),
            lambda a, of: a**3 - a**1.5 - abs(of(0.5) - a) ** 2,
            lambda a, of: a.lambertw() * of.pi(),
            lambda a, of: (a * a).log() + of("0.05"),
        ):
            found, exact = value(Arb(x), Arb), value(arb(x), arb)
            assert ball(found.low) <= exact.upper() and ball(found.high) >= exact.lower()
            assert (
                float(ball(found.high) - ball(found.low))
                <= 1e-15 * max(1.0, abs(float(exact))) * 2.0**-60
            )


def test_cells_must_cover_the_box():
    box = Box(x=(0.0, 1.0), y=(0.5, 8.0))
    left, right = box.halves()
    cells = [left, *right.halves()]
    assert objects._covers(box, {repr(cell) for cell in cells})
    assert not objects._covers(box, {repr(cell) for cell in cells[1:]})


def test_every_claim_over_a_box_has_an_object():
    stored = {
        path.stem: json.loads(path.read_text(encoding="utf-8")) for path in STORED.glob("*.json")
    }
    assert len(stored) >= 60
    assert all(found["id"] == name and found["cells"] for name, found in stored.items())
