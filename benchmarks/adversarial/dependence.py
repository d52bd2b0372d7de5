"""Attacks by mechanisms whose runs depend on each other, on state, on batch size, or on the phase
of the audit.

A mechanism that satisfies its claim may end in ERROR, and is reported as VIOLATED no more often
than stated. A leaking mechanism must not end in NOT REFUTED.
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from importlib import import_module, invalidate_caches
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator

from dpwitness import Verdict, audit, audit_outputs
from dpwitness.auditors.audit.watch import WatchedTarget, watch
from dpwitness.auditors.witnesses.store import open_store
from dpwitness.benchmarks.adversarial.attack import (
    PAIR,
    RATE_RUNS,
    Attack,
    Outcome,
    failure_unless_verdict,
    false_alarm,
    response,
    seed_of,
)
from dpwitness.mechanisms import PureDP
from dpwitness.stability import Atom, VectorOf, audit_stability

Mechanism = Callable[[Any, int, Generator], Any]


class Counting:
    """Mechanism that switches to another mechanism after a number of calls, or of outputs."""

    def __init__(self, before: Mechanism, after: Mechanism, limit: float, *, outputs: bool) -> None:
        self.before, self.after, self.limit, self.outputs, self.seen = (
            before,
            after,
            limit,
            outputs,
            0,
        )

    def __call__(self, dataset: Any, size: int, rng: Generator) -> Any:
        chosen = self.before if self.seen < self.limit else self.after
        self.seen += size if self.outputs else 1
        return chosen(dataset, size, rng)


def _settings(rng: Generator, alpha: float) -> dict[str, Any]:
    """Draw the settings of an audit."""
    return {
        "pair": PAIR,
        "trials": int(rng.integers(1500, 4001)),
        "confidence": 1 - alpha,
        "seed": seed_of(rng),
        "bits": False,
    }


def _count_uses(mechanism: Mechanism, outputs: bool, settings: dict[str, Any]) -> int:
    """Return the number of calls or outputs in a complete audit."""
    counting = Counting(mechanism, mechanism, math.inf, outputs=outputs)
    audit(counting, claim=PureDP(1.0), **settings)
    return counting.seen


def sound_but_stateful(alpha: float, rng: Generator) -> str:
    """Run an attack with randomized response at its claim, with swapped outputs after some calls,
    after some outputs, or by batch size.
    """
    epsilon, kind = (
        float(rng.uniform(0.5, 2.0)),
        str(rng.choice(["calls", "outputs", "batch", "parity"])),
    )
    sound = response(epsilon)

    def swapped(dataset: Any, size: int, draws: Generator) -> Any:
        return 1 - sound(dataset, size, draws)

    limit = int(10 ** rng.uniform(0, 3))

    def by_batch(dataset: Any, size: int, draws: Generator) -> Any:
        other = size < limit if kind == "batch" else size % 2
        return (swapped if other else sound)(dataset, size, draws)

    mechanism = (
        by_batch
        if kind in ("batch", "parity")
        else Counting(sound, swapped, limit, outputs=kind == "outputs")
    )
    result = audit(mechanism, claim=PureDP(epsilon), name="attack", **_settings(rng, alpha))
    return false_alarm(result, f"response {epsilon:.3f} swapped by {kind}, limit {limit}")


def dependent_rows(alpha: float, rng: Generator) -> str:
    """Run an attack with randomized response at its claim, with dependent rows in one call: copies,
    chains, or one draw for the batch.
    """
    epsilon, kind = (
        float(rng.uniform(0.5, 2.0)),
        str(rng.choice(["copies", "chain", "mirror", "one draw"])),
    )
    sound, width, stay = response(epsilon), int(rng.integers(2, 9)), float(rng.uniform(0.2, 0.9))

    def dependent(dataset: Any, size: int, draws: Generator) -> Any:
        rows = sound(dataset, size, draws)
        if kind == "copies":
            return np.repeat(rows, width)[:size]
        if kind == "one draw":
            return np.full(size, rows[0])
        if kind == "mirror":
            return np.where(np.arange(size) < size // 2, rows, rows[::-1])
        fresh = draws.random(size) >= stay
        fresh[0] = True
        return rows[np.maximum.accumulate(np.where(fresh, np.arange(size), 0))]

    result = audit(dependent, claim=PureDP(epsilon), **_settings(rng, alpha))
    return false_alarm(
        result, f"response {epsilon:.3f}, rows by {kind}, width {width}, stay {stay:.2f}"
    )


def leak_that_hides(rng: Generator) -> str:
    """Run an attack with a mechanism that leaks only before or only after some calls, as if it
    distinguished training from testing.

    At least 15 % of the calls leak if the last ones do: a leak in fewer is beyond the power of so
    few runs. The number of calls depends on the speed of the machine, so that an audit may end
    before the leak.
    """
    claim, outputs, settings = (
        float(rng.uniform(0.5, 1.0)),
        bool(rng.random() < 0.5),
        _settings(rng, 0.01),
    )
    sound, leaks = response(claim), response(claim + 3.0)
    total = _count_uses(sound, outputs, settings)
    limit = max(1, int(total * rng.uniform(0.02, 0.85)))
    first_leaks = bool(rng.random() < 0.5)
    mechanism = Counting(
        *((leaks, sound) if first_leaks else (sound, leaks)), limit, outputs=outputs
    )
    result = audit(mechanism, claim=PureDP(claim), name="attack", **settings)
    if not first_leaks and limit > 0.85 * mechanism.seen:
        return ""
    allowed = (Verdict.VIOLATED, Verdict.ERROR, Verdict.INCONCLUSIVE)
    description = (
        f"{'leaks first' if first_leaks else 'leaks later'}, changes after {limit} of "
        f"{mechanism.seen} {'outputs' if outputs else 'calls'}"
    )
    return failure_unless_verdict(result, allowed, description)


def leak_by_batch(rng: Generator) -> str:
    """Run an attack with a mechanism that leaks only in batches of several runs, as vectorized code
    may. An audit makes no single runs.
    """
    claim, smallest_batch = float(rng.uniform(0.5, 1.0)), int(rng.integers(2, 17))
    sound, leaks = response(claim), response(claim + 3.0)

    def run(dataset: Any, size: int, draws: Generator) -> Any:
        return (leaks if size >= smallest_batch else sound)(dataset, size, draws)

    result = audit(run, claim=PureDP(claim), **_settings(rng, 0.01))
    return failure_unless_verdict(
        result,
        (Verdict.VIOLATED, Verdict.ERROR, Verdict.INCONCLUSIVE),
        f"leaks in batches of {smallest_batch} or more",
    )


ALPHA = 0.05
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
        confidence=1 - ALPHA,
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
            (state,) = watch([target], store, trials=1500, confidence=1 - ALPHA)
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
    result = audit_outputs(sides[0], sides[1], "pure:0.2", confidence=1 - ALPHA, seed=seed_of(rng))
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
                confidence=1 - ALPHA,
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
        ALPHA,
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
    Attack(
        "correct mechanism with state or batch-dependent outputs reported as VIOLATED, alpha .05",
        partial(sound_but_stateful, 0.05),
        0.05,
        RATE_RUNS,
    ),
    Attack(
        "correct mechanism with dependent rows reported as VIOLATED, alpha .05",
        partial(dependent_rows, 0.05),
        0.05,
        RATE_RUNS,
    ),
    Attack("leak before or after a number of calls passes", leak_that_hides),
    Attack("leak in batches only passes", leak_by_batch),
    Attack("runs that depend on each other: fixed plan", partial(in_plan, False), ALPHA, 40),
    Attack("runs that depend on each other: sequential", partial(in_plan, True), ALPHA, 20),
    Attack("runs that depend on each other: watch", in_watch, ALPHA, 8),
    Attack("runs that depend on each other: given outputs", in_given_outputs, ALPHA, 40),
    Attack("noise that a process keeps", kept_noise, ALPHA, 25),
    Attack("noise that a process keeps: transformations", kept_by_transformation, 0.0, 8),
)
