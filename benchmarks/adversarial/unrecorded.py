"""Attacks on traces with noise that is not recorded, and with no noise at all: the recorded calls
must not support the claim.
"""

from __future__ import annotations

import ctypes
import random
import secrets
import sqlite3
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator

from dpwitness import Pair, Verdict, audit, trace
from dpwitness.benchmarks.adversarial.attack import Attack, seed_of
from dpwitness.mechanisms import PureDP

_TABLE = np.random.default_rng(11).random(100_000).tolist()  # noise that was drawn before the audit


def _from_device(_: Generator) -> float:
    with Path("/dev/urandom").open("rb") as device:
        return float(struct.unpack("<Q", device.read(8))[0]) / 2.0**64


def _from_database(_: Generator) -> float:
    with sqlite3.connect(":memory:") as connection:
        return abs(int(connection.execute("SELECT random()").fetchone()[0])) / 2.0**63


def _from_c(_: Generator) -> float:
    return int(ctypes.CDLL(None).rand()) / 2.0**31


def _from_c_seeded(rng: Generator) -> float:
    library = ctypes.CDLL(None)
    library.srand(int(rng.integers(2**31)))
    return int(library.rand()) / 2.0**31


def _from_table(_: Generator) -> float:
    return float(_TABLE.pop() if len(_TABLE) > 1 else _TABLE[0])


_SOURCES: tuple[Callable[[Generator], float], ...] = (
    _from_device,
    _from_database,
    _from_c,
    _from_c_seeded,
    _from_table,
    lambda _: secrets.randbelow(2**53) / 2.0**53,
    lambda _: random.SystemRandom().random(),
)
_FORMS = ("number", "whole", "bit", "rare bit", "sum", "beside", "unused")


def _value(form: str, moved: float, noisy: float, recorded: float) -> Any:
    """Return the output of one run: `noisy` is the data with noise that is not recorded, `recorded`
    has recorded noise only.
    """
    if form == "sum":
        return 0.1 * moved + noisy + 10 * recorded
    values = {
        "number": noisy,
        "whole": round(noisy),
        "rare bit": int(noisy > 3.5),
        "beside": [recorded, float(noisy > 2)],
    }
    return values.get(form, int(noisy > 0.5))


def supported(rng: Generator) -> str:
    """Attack with noise from a source that no trace records, alone or beside recorded noise: the
    trace must not support any claim.
    """
    source, form = _SOURCES[int(rng.integers(len(_SOURCES)))], str(rng.choice(_FORMS))
    scale, claim = float(rng.uniform(0.3, 1.0)), float(rng.uniform(1.0, 4.0))

    def run(dataset: Any, size: int, rng: Generator) -> Any:
        found = []
        for _ in range(size):
            u = min(max(source(rng), 1e-12), 1 - 1e-12) - 0.5
            noisy = float(dataset[0]) - scale * np.sign(u) * np.log(1 - 2 * abs(u))
            recorded = rng.laplace(0.0, 1.0) if form in ("sum", "beside", "unused") else 0.0
            found.append(_value(form, float(dataset[0]), noisy, recorded))
        return np.array(found)

    run.seeded = False  # type: ignore[attr-defined]
    pair = Pair(np.array([0.0]), np.array([1.0]), "replace-one")
    result = audit(run, claim=PureDP(claim), pair=pair, trials=2000, seed=seed_of(rng), bits=False)
    if result.trace is not None and any("SUPPORTED" in line for line in result.trace.explanation):
        return f"SUPPORTED: {form} with noise {_SOURCES.index(source)} of scale {scale:.2f}"
    return ""


def without_noise(rng: Generator) -> str:
    """Attack with a function without noise whose outputs are equal on both datasets: neither
    support nor an accusation.
    """
    size_only, records = bool(rng.random() < 0.5), int(rng.integers(1, 6))
    constant: Any = [3.0, "a", (1, 2.5), None, [], {"n": 1}][int(rng.integers(6))]

    def run(dataset: Any, size: int, rng: Generator) -> Any:
        return [len(dataset) if size_only else constant for _ in range(size)]

    base = rng.normal(size=records)
    pair = Pair(base, np.append(base[:-1], 7.0), "replace-one")
    traced, audited = (
        trace(run, pair, "pure:1"),
        audit(run, claim="pure:1", pair=pair, trials=1000, seed=seed_of(rng)),
    )
    if traced.verdict is not Verdict.INCONCLUSIVE or not traced.doubt or traced.findings:
        return f"trace: {traced.headline():.150}"
    support = audited.trace is not None and any(
        "SUPPORTED" in line for line in audited.trace.explanation
    )
    return (
        f"audit: {audited.headline():.150}"
        if support or audited.verdict is Verdict.VIOLATED
        else ""
    )


ATTACKS = (
    Attack("noise that is not recorded SUPPORTED by its trace", supported, runs=120),
    Attack("function without noise supported or accused by its trace", without_noise, runs=60),
)
