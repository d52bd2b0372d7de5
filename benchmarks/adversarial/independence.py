"""Attacks by mechanisms that never look at their data, and whose runs depend on each other:
VIOLATED must stay rare.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from functools import partial
from importlib import import_module, invalidate_caches
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator

from dpwitness import audit, audit_outputs
from dpwitness.auditors.audit.watch import WatchedTarget, watch
from dpwitness.auditors.witnesses.store import open_store
from dpwitness.benchmarks.adversarial.attack import PAIR, Attack, Outcome, false_alarm, seed_of
from dpwitness.stability import Atom, VectorOf, audit_stability

Mechanism = Callable[..., Any]
_ALPHA = 0.05
_CLAIMS = ("pure:1", "pure:0.3", "approx:0.5,1e-5", "gdp:0.5", "zcdp:0.2")


def dependent(kind: str, strength: float, share: float) -> Mechanism:
    """Return noise of which a part is drawn once per call, or for some rows together; the dataset
    is not used.
    """

    def run(_: Any, size: int, rng: Generator) -> Any:
        own = rng.laplace(0.0, 1.0, size)
        if kind == "location":
            return rng.laplace(0.0, strength) + own
        if kind == "scale":
            return rng.gamma(1.0 / strength) * own
        if kind == "some calls":
            return own + (rng.laplace(0.0, 5 * strength) if rng.random() < share else 0.0)
        if kind == "some rows":
            return own + np.where(np.arange(size) < share * size, rng.laplace(0.0, strength), 0.0)
        if kind == "blocks":
            block = 2 + int(30 * share)
            return (
                np.repeat(rng.laplace(0.0, strength, size // block + 1), block)[:size] + 0.3 * own
            )
        if kind == "mirrored":
            half = rng.laplace(0.0, 1.0, size // 2 + 1)
            return np.concatenate([half, -half])[:size]
        chance = rng.beta(1 / strength, 1 / strength)
        return (rng.random(size) < chance).astype(float)

    return run


KINDS = ("location", "scale", "some calls", "some rows", "blocks", "mirrored", "coin")


def _drawn(rng: Generator) -> tuple[Mechanism, str]:
    kind, strength, share = (
        str(rng.choice(KINDS)),
        float(np.exp(rng.uniform(-1.0, 2.0))),
        float(rng.uniform(0.02, 0.6)),
    )
    return dependent(kind, strength, share), f"{kind} of strength {strength:.2f}, share {share:.2f}"


def in_plan(sequential: bool, rng: Generator) -> str:
    """Audit a mechanism whose runs of a call depend on each other, with a fixed plan or
    sequentially.
    """
    mechanism, what = _drawn(rng)
    settings: dict[str, Any] = (
        {"sequential": True, "trials": 3000}
        if sequential
        else {"trials": int(rng.integers(1000, 4000))}
    )
    result = audit(
        mechanism,
        claim=str(rng.choice(_CLAIMS)),
        pair=PAIR,
        confidence=1 - _ALPHA,
        seed=seed_of(rng),
        bits=False,
        trace=False,
        name="dependent",
        **settings,
    )
    return false_alarm(result, f"{what}, {result.claim}")


def in_watch(rng: Generator) -> str:
    """Watch such a mechanism over several calls of few runs."""
    mechanism, what = _drawn(rng)
    target = WatchedTarget(mechanism, "dependent", str(rng.choice(_CLAIMS)), PAIR)
    with tempfile.TemporaryDirectory() as folder, open_store(Path(folder) / "watch.db") as store:
        for _ in range(3):
            (state,) = watch([target], store, trials=1500, confidence=1 - _ALPHA)
            if fault := false_alarm(state.result, what):
                return fault
    return ""


def in_given_outputs(rng: Generator) -> str:
    """Give outputs in blocks of calls, or the same outputs several times."""
    size, sides, copies = int(rng.integers(1000, 3000)), [], int(rng.choice([1, 2, 5]))
    mechanism, what = (
        dependent("blocks", float(np.exp(rng.uniform(0.0, 2.0))), float(rng.uniform(0.0, 1.0))),
        "blocks",
    )
    for _ in range(2):
        rows = rng.laplace(0.0, 1.0, size) if copies > 1 else mechanism(None, size, rng)
        sides.append(rng.permutation(np.repeat(rows, copies)) if copies > 1 else rows)
    result = audit_outputs(sides[0], sides[1], "pure:0.2", confidence=1 - _ALPHA, seed=seed_of(rng))
    return false_alarm(result, f"{what}, {copies} copies of {size} outputs")


MEMOS = {
    "lru_cache": """
from functools import lru_cache
@lru_cache(maxsize=None)
def kept(key):
    return draw()
""",
    "dict": """
memo = {}
def kept(key):
    if key not in memo:
        memo[key] = draw()
    return memo[key]
""",
    "default argument": """
def kept(key, memo={}):
    return memo.setdefault(hash(key), draw()) if hash(key) not in memo else memo[hash(key)]
""",
    "global names": """
def kept(key):
    name = f"noise_{abs(hash(key))}"
    if name not in globals():
        globals()[name] = draw()
    return globals()[name]
""",
    "attributes": """
class Kept:
    pass
def kept(key):
    name = f"noise_{abs(hash(key))}"
    if not hasattr(Kept, name):
        setattr(Kept, name, draw())
    return getattr(Kept, name)
""",
}
_MODULE = """
import numpy as np
def draw():
    return float(np.random.default_rng().{law})
{memo}
def run(dataset, size, rng):
    return kept(dataset.tobytes()) + {fresh} * rng.laplace(0.0, 1.0, size)
def transformation(rows):
    return sum(rows) + kept(tuple(rows))
run.seeded = False
"""


def _module(kind: str, law: str, fresh: float, rng: Generator, folder: str) -> Any:
    """Return a new module with a mechanism that keeps its noise."""
    name = f"kept_noise_{seed_of(rng)}"
    (Path(folder) / f"{name}.py").write_text(
        _MODULE.format(law=law, memo=MEMOS[kind], fresh=fresh), encoding="utf-8"
    )
    sys.path.insert(0, folder)
    invalidate_caches()
    return import_module(name)


def kept_noise(rng: Generator) -> Outcome:
    """Audit a mechanism that keeps its noise in its process: in a module, or as a function that
    cannot be imported.
    """
    importable = bool(rng.random() < 0.5)
    kind = str(
        rng.choice(sorted(MEMOS) if importable else ["lru_cache", "dict", "default argument"])
    )
    law = str(rng.choice(["laplace(0, 5)", "normal(0, 20)", "integers(0, 2)", "choice(7)"]))
    fresh, sequential = float(rng.choice([0.0, 0.3])), bool(rng.random() < 0.5)
    with tempfile.TemporaryDirectory() as folder:
        module = _module(kind, law, fresh, rng, folder)
        mechanism = module.run
        if not importable:

            def mechanism(dataset: Any, size: int, draws: Generator) -> Any:
                return module.run(dataset, size, draws)

            mechanism.seeded = False  # type: ignore[attr-defined]
        try:
            settings: dict[str, Any] = {"sequential": True} if sequential else {}
            result = audit(
                mechanism,
                claim="pure:1",
                pair=PAIR,
                trials=2000,
                confidence=1 - _ALPHA,
                seed=seed_of(rng),
                bits=False,
                trace=False,
                **settings,
            )
        finally:
            sys.path.remove(folder)
    return Outcome(
        false_alarm(
            result,
            f"{kind}, {law}, fresh {fresh}, sequential {sequential}, importable {importable}",
        ),
        _ALPHA,
    )


def kept_by_transformation(rng: Generator) -> str:
    """Audit the stability of a transformation that keeps its noise."""
    with tempfile.TemporaryDirectory() as folder:
        module = _module(str(rng.choice(sorted(MEMOS))), "normal(0, 50)", 0.0, rng, folder)
        space = VectorOf(Atom("i32", bounds=(0, 10)))
        try:
            result = audit_stability(
                module.transformation, lambda d: 10 * d, space, "symmetric", "absolute", seconds=0.5
            )
        finally:
            sys.path.remove(folder)
    return false_alarm(result, "a transformation that keeps its noise")


ATTACKS = (
    Attack("runs that depend on each other: fixed plan", partial(in_plan, False), _ALPHA, 40),
    Attack("runs that depend on each other: sequential", partial(in_plan, True), _ALPHA, 20),
    Attack("runs that depend on each other: watch", in_watch, _ALPHA, 8),
    Attack("runs that depend on each other: given outputs", in_given_outputs, _ALPHA, 40),
    Attack("noise that a process keeps", kept_noise, _ALPHA, 25),
    Attack("noise that a process keeps: transformations", kept_by_transformation, 0.0, 8),
)
