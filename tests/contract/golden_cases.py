"""Small audits of every kind with fixed seeds: the golden runs, whose results a change of the inner
structure may not change.

`CASES` maps a name to a function without arguments that returns a result, or a tuple of results.
`summary` is everything of a result that the seed decides; times, machines and pictures are left
out. `golden.json` has the key figures of every case: run this file to write it again, and
`compare_commits.py` to compare two commits to the last digit.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import dpwitness as dpw
from dpwitness import accounting, canaries, domains, metamorphic, wrap
from dpwitness import mechanisms as m
from dpwitness.auditors.search.catalogue import pairs_for
from dpwitness.stability import Atom, VectorOf

CASES: dict[str, Callable[[], Any]] = {}
GOLDEN = Path(__file__).with_name("golden.json")
PAIR = dpw.Pair(np.array([0.0]), np.array([1.0]))
_LEFT_OUT = {
    "seconds",
    "cpu_seconds",
    "environment",
    "picture",
    "target",
    "headline",
    "notes",
    "schema_version",
    "looks",
    "primitives",
}


def case(name: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Register a function as the case `name`."""

    def register(run: Callable[[], Any]) -> Callable[[], Any]:
        assert name not in CASES, name
        CASES[name] = run
        return run

    return register


def summary(result: Any) -> Any:
    """Return everything of a result that a seed decides, with 12 digits: equal for two versions
    that behave equally on one machine.
    """
    if isinstance(result, tuple | list):
        return [summary(each) for each in result]
    return _rounded(result.to_json())


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.12g}") if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {
            str(key): _rounded(item) for key, item in sorted(value.items()) if key not in _LEFT_OUT
        }
    return [_rounded(item) for item in value] if isinstance(value, list | tuple) else value


def key_figures(content: Any) -> Any:
    """Return the figures of a summary that the golden file keeps: single values, counts, and the
    hash of the pair of datasets.
    """
    if isinstance(content, list):
        return [key_figures(each) for each in content]
    kept = {
        key: value
        for key, value in content.items()
        if isinstance(value, str | int | float | bool) and len(str(value)) < 60
    }
    kept |= {
        key: content[key]
        for key in ("tally", "calls")
        if content.get(key) and len(str(content[key])) < 300
    }
    if content.get("pair"):
        kept["pair"] = hashlib.sha256(
            json.dumps(content["pair"], sort_keys=True).encode()
        ).hexdigest()[:12]
    if content.get("bit_level"):
        kept["bit_level"] = content["bit_level"]["verdict"]
    return dict(sorted(kept.items()))


# -- every specimen of the zoo and of the papers
# -----------------------------------------------------------------------

for _name, _specimen in m.zoo().items():
    case(f"zoo/{_name}")(lambda specimen=_specimen: dpw.audit(specimen, trials=3_000, seed=1))
for _name, _paper in m.paper_zoo().items():
    if _name in ("independent-full-printed", "independent-full-repaired"):  # half a minute each
        continue
    case(f"paper/{_name}")(
        lambda paper=_paper: dpw.audit(
            paper.mechanism, pair=list(paper.pairs), trials=1_200, seed=2
        )
    )


# -- notions
# --------------------------------------------------------------------------------------------------


def shifted_normal(dataset: Any, size: int, rng: np.random.Generator) -> Any:
    return float(np.sum(dataset)) + rng.normal(0.0, 0.5, size)


for _claim in (
    "pure:1", "approx:1,1e-3", "gdp:1.5", "zcdp:0.5", "rdp:2,1", "rdp:2=1,4=2.5", "group:2,pure:0.5",
):  # fmt: skip
    case(f"notion/{_claim}")(
        lambda claim=_claim: dpw.audit(shifted_normal, claim=claim, pair=PAIR, trials=4_000, seed=3)
    )


@case("notion/metric")
def _() -> Any:
    pair = dpw.Pair(np.array([0.0]), np.array([1.0]))
    return dpw.audit(
        shifted_normal, claim=dpw.claims.MetricDP(0.3), pair=pair, trials=4_000, seed=3
    )


@case("notion/dpsgd")
def _() -> Any:
    step = m.GradientSteps(
        noise_multiplier=1.0, sampling_probability=0.25, delta=1e-3, update=_dpsgd_update
    )
    return dpw.audit(step, pair=step.worst_pair(), trials=3_000, seed=1, bits=False)


def _dpsgd_update(gradients: Any, rng: Any) -> Any:
    """Clip to 3 where the claim assumes 1."""
    batch = gradients[rng.random(len(gradients)) < 0.25]
    lengths = np.linalg.norm(batch, axis=1, keepdims=True)
    return (batch * np.minimum(1.0, 3 / np.maximum(lengths, 1e-12))).sum(axis=0) + rng.normal(
        size=gradients.shape[1]
    )


# -- kinds of output
# --------------------------------------------------------------------------------------------------


def _flip(dataset: Any, rng: np.random.Generator) -> bool:
    """Randomized response with odds 4 : 1 on the first record."""
    return bool((rng.random() < 0.8) == (np.sum(dataset) > 0.5))


OUTPUTS: dict[str, Callable[[bool, np.random.Generator], Any]] = {
    "text": lambda yes, rng: "yes" if yes else "no",
    "none": lambda yes, rng: 1.5 if yes else None,
    "exception": lambda yes, rng: 1.0 if yes else {}["missing key"],
    "lengths": lambda yes, rng: [0.0] * (2 + yes),
    "mapping": lambda yes, rng: {"a": 1, "b": 2.5} if yes else {"a": 1},
    "tuple": lambda yes, rng: (1, "x", yes),
    "large-integers": lambda yes, rng: 2**80 + int(yes),
    "signed-zero": lambda yes, rng: 0.0 if yes else -0.0,
    "bytes": lambda yes, rng: b"\x00" if yes else b"\x00\x00",
    "frame": lambda yes, rng: pd.DataFrame({"n": [1, 2 if yes else 3]}),
    "frame-index": lambda yes, rng: pd.DataFrame({"n": [1, 2]}, index=["a", "b" if yes else "c"]),
    "masked": lambda yes, rng: np.ma.masked_array([1.0, 2.0], mask=[False, yes]),
    "date": lambda yes, rng: np.datetime64(
        "2020-01-01T00:00:00.000000001" if yes else "2020-01-01T00:00:00.000000000"
    ),
    "dtype": lambda yes, rng: np.float32(1) if yes else np.float64(1),
    "noise-and-text": lambda yes, rng: (rng.laplace(), "yes" if yes else "no"),
    "zero-inflated": lambda yes, rng: 0.0 if yes else rng.normal(),
}
for _kind, _output in OUTPUTS.items():

    def _run(output: Any = _output) -> Any:
        def mechanism(dataset: Any, size: int, rng: np.random.Generator) -> list[Any]:
            return [output(_flip(dataset, rng), rng) for _ in range(size)]

        return dpw.audit(
            mechanism,
            claim="pure:0.5",
            pair=PAIR,
            trials=3_000,
            seed=4,
            trace=False,
            name="response",
        )

    case(f"output/{_kind}")(_run)


# -- kinds of dataset
# --------------------------------------------------------------------------------------------------


def _noisy_total(dataset: Any, size: int, rng: np.random.Generator) -> Any:
    numbers = dataset if isinstance(dataset, np.ndarray) else np.arange(len(dataset))
    return float(np.sum(numbers[:1])) + rng.laplace(0.0, 0.5, size)


DOMAINS: dict[str, Any] = {
    "records": domains.Records(4, low=0, high=1),
    "records-integer": domains.Records(3, low=0, high=5, integer=True, relation="add-remove"),
    "records-missing": domains.Records(3, missing=True),
    "answers": domains.Answers(3, low=0, high=1),
    "counts": domains.Counts(3, high=4),
    "rows": domains.Rows(3, features=((0, 1), (0, 2))),
    "rows-labels": domains.Rows(3, features=((0, 1),), labels=(0, 1)),
    "texts": domains.Texts(3, words=("a", "b"), relation="add-remove"),
    "labelled-ball": domains.LabelledBall(2, 3),
    "costs": domains.Costs(3, 2, 1.0),
    "graph": domains.Graph(4),
    "table": domains.Table({"age": (0.0, 9.0), "city": ["a", "b"]}, size=4),
    "users": domains.Table({"spent": (0.0, 9.0)}, user="user", frame="dict"),
    "events": domains.Events({"spent": (0.0, 9.0)}),
}
for _kind, _domain in DOMAINS.items():

    def _run_domain(domain: Any = _domain) -> Any:
        def mechanism(dataset: Any, size: int, rng: np.random.Generator) -> Any:
            return len(repr(dataset)) + rng.laplace(0.0, 0.5, size)

        return dpw.audit(
            mechanism,
            claim="pure:1",
            domain=domain,
            trials=3_000,
            seed=5,
            trace=False,
            name="length of text",
        )

    case(f"domain/{_kind}")(_run_domain)


# -- kinds of audit
# --------------------------------------------------------------------------------------------------


def weak_sum(dataset: Any, size: int, rng: np.random.Generator) -> Any:
    """Claims epsilon = 1 and has 2."""
    return float(np.sum(dataset)) + rng.laplace(0.0, 0.5, size)


def sound_sum(dataset: Any, size: int, rng: np.random.Generator) -> Any:
    return float(np.sum(dataset)) + rng.laplace(0.0, 1.0, size)


class KnownLaplace:
    """A sampler of scale 0.9 with its density."""

    claim = dpw.PureDP(1.0)

    def sample(self, dataset: Any, size: int, rng: np.random.Generator) -> Any:
        return np.sum(dataset) + rng.laplace(0.0, 0.9, size)

    def log_density(self, outputs: Any, dataset: Any) -> Any:
        return -np.abs(np.ravel(outputs) - np.sum(dataset)) / 0.9 - np.log(1.8)


case("audit/violated")(lambda: dpw.audit(weak_sum, claim="pure:1", pair=PAIR, trials=4_000, seed=6))
case("audit/sound")(lambda: dpw.audit(sound_sum, claim="pure:1", pair=PAIR, trials=4_000, seed=6))
case("audit/many pairs")(
    lambda: dpw.audit(weak_sum, claim="pure:1", domain=domains.Records(3), trials=6_000, seed=6)
)
case("audit/one run")(
    lambda: dpw.audit(
        dpw.one_run(lambda dataset, rng: float(dataset.sum() + rng.laplace()), claim="pure:0.5"),
        pair=PAIR,
        trials=2_000,
    )
)
case("audit/low bits")(
    lambda: dpw.audit(m.Laplace(1.0, arithmetic="float"), pair=PAIR, trials=20_000, seed=6)
)
case("sequential/violated")(
    lambda: dpw.audit(weak_sum, claim="pure:1", pair=PAIR, trials=20_000, sequential=True, seed=7)
)
case("sequential/sound")(
    lambda: dpw.audit(sound_sum, claim="pure:1", pair=PAIR, trials=4_000, sequential=True, seed=7)
)
case("sequential/find")(
    lambda: dpw.audit(
        sound_sum, claim="pure:1", pair=PAIR, trials=60_000, sequential=True, find=2.0, seed=7
    )
)
case("outputs/violated")(
    lambda: dpw.audit_outputs(
        *np.random.default_rng(3).laplace([[0.0], [1.0]], 0.5, (2, 5_000)), "pure:1", seed=1
    )
)
case("outputs/categories")(
    lambda: dpw.audit_outputs(
        ["a", "b"] * 1_000 + ["a"] * 1_000, ["b"] * 1_500 + ["a", "b"] * 750, "pure:0.1", seed=1
    )
)
case("certify/laplace")(lambda: dpw.certify(m.Laplace(1.0), trials=10_000))
case("certify/gaussian")(lambda: dpw.certify(m.Gaussian(1.0, 1e-5), trials=10_000))
case("certify/noisy max")(lambda: dpw.certify(m.NoisyMax(1.0), trials=10_000))
case("certify/randomized response")(lambda: dpw.certify(m.RandomizedResponse(1.0), trials=10_000))
case("certify/violated")(lambda: dpw.certify(KnownLaplace(), PAIR, trials=10_000))
case("certify/sampling")(
    lambda: dpw.certify(KnownLaplace(), PAIR, "approx:1.2,0.01", route="sampling", trials=10_000)
)
VECTOR = m.LaplaceVector(1.0)
case("certify/vector")(
    lambda: dpw.certify(VECTOR, pairs_for(VECTOR.domain)[1], trials=10_000)  # all answers differ
)
case("trace/violated")(lambda: dpw.trace(weak_sum, PAIR, "pure:1", confirm=False))
case("trace/sound")(lambda: dpw.trace(sound_sum, PAIR, "pure:1"))
case("trace/confirmed")(lambda: dpw.trace(weak_sum, PAIR, "pure:1", trials=4_000))


@case("trace/call on one side")
def _() -> Any:
    def skips(dataset: Any, size: int, rng: np.random.Generator) -> Any:
        return rng.laplace(np.sum(dataset), 1.0, size) if np.sum(dataset) > 0 else np.zeros(size)

    return dpw.trace(skips, PAIR, "pure:1", confirm=False)


def _scores(shift: float) -> tuple[Any, Any]:
    rng = np.random.default_rng(8)
    coins = rng.random(600) < 0.5
    scores = rng.normal(size=600) + shift * coins
    return scores[coins], scores[~coins]


case("canaries/violated")(lambda: dpw.audit_canaries(*_scores(3.0), "approx:0.5,1e-5", seed=1))
case("canaries/sound")(lambda: dpw.audit_canaries(*_scores(1.0), "gdp:1", seed=1))
case("canaries/limit")(lambda: _Fields(canaries.canary_limit("approx:2,1e-5", 500)))
case("sensitivity/violated")(
    lambda: dpw.audit_sensitivity(np.mean, 0.2, domains.Records(4), evaluations=300)
)
case("sensitivity/sound")(
    lambda: dpw.audit_sensitivity(np.mean, 0.25, domains.Records(4), evaluations=300)
)
case("utility/sound")(
    lambda: dpw.audit_utility(
        lambda size, rng: abs(rng.laplace(size=size)),
        dpw.auditors.MeanBound(1.1),
        runs=20_000,
        seed=1,
    )
)
case("utility/violated")(
    lambda: dpw.audit_utility(
        lambda size, rng: abs(rng.laplace(size=size)),
        dpw.auditors.MeanBound(0.9),
        runs=20_000,
        seed=1,
    )
)
_INTEGERS = VectorOf(Atom("i32", bounds=(0, 10)))
case("stability/violated")(
    lambda: dpw.audit_stability(sum, lambda d: 9 * d, _INTEGERS, "symmetric", "absolute", seed=1)
)
case("stability/map raises")(
    lambda: dpw.audit_stability(len, lambda d: 0 * d, _INTEGERS, "symmetric", "absolute", seed=1)
)


def _classic(epsilon: float, delta: float) -> float:
    """Noise of the classic Gaussian mechanism: enough for epsilon up to 1 only."""
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon


case("accountant/violated")(
    lambda: accounting.audit_accountant(
        _classic, "gaussian", "noise",
        ranges={"delta": (1e-6, 1e-6), "epsilon": (1, 30)}, evaluations=200,
    )
)  # fmt: skip
case("accountant/sound")(
    lambda: accounting.audit_accountant(
        _classic, "gaussian", "noise",
        ranges={"epsilon": (0.1, 1)}, evaluations=100,
    )
)  # fmt: skip
case("metamorphic/parallel")(
    lambda: metamorphic.audit_metamorphic(
        noise=lambda epsilon: 1 / epsilon, parallel=lambda epsilons: sum(epsilons) / len(epsilons)
    )
)
case("metamorphic/row-wise")(
    lambda: metamorphic.audit_metamorphic(
        lambda rows: rows - rows.mean(), row_wise=True, domain=domains.Records(3)
    )
)
case("plan/find")(lambda: dpw.plan("pure:1", find=1.1))
case("plan/trials")(lambda: dpw.plan("approx:1,1e-5", trials=50_000))
case("search/noisy max")(
    lambda: [
        _Fields({"why": pair.why, "loss": loss})
        for pair, loss in domains.search(
            m.NoisyMax(1.0, release="value"), m.Answers(5), "pure:1", evaluations=200
        )
    ]
)


class _Sparse:
    """A session that pays for one yes and gives ten."""

    def start(self, dataset: Any, rng: np.random.Generator) -> None:
        self.data, self.rng, self.threshold = dataset, rng, 0.5 + rng.laplace(0.0, 2.0)

    def ask(self, query: int) -> bool:
        return bool(self.data[query] + self.rng.laplace(0.0, 2.0) > self.threshold)


@case("session/adversary")
def _() -> Any:
    session = wrap.interactive(_Sparse, queries=[0, 1], rounds=16, claim="pure:1")
    pair = dpw.Pair(np.array([1.0, 0.0]), np.array([0.0, 1.0]), relation="linf")
    return dpw.audit(
        session.against(wrap.Adversary([6 * [0] + 10 * [1]], rounds=16)),
        pair=pair,
        trials=3_000,
        seed=1,
        bits=False,
    )


class _Fields:
    """A plain object with `to_json`, for values that are not results."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def to_json(self) -> dict[str, Any]:
        if isinstance(self.value, dict):
            return self.value
        return {
            name: getattr(self.value, name)
            for name in ("epsilon", "parameter", "guesses", "detectable")
        }


def _main() -> None:
    """Write the summaries of all cases to the file given, or the key figures to `golden.json`."""
    names = [name for name in CASES if len(sys.argv) < 3 or sys.argv[2] in name]
    content = {name: summary(CASES[name]()) for name in names}
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(
            json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8"
        )
        return
    lines = [
        f"{json.dumps(name)}: {json.dumps(key_figures(each), sort_keys=True)}"
        for name, each in content.items()
    ]
    GOLDEN.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    _main()
