"""What an audit returns: a verdict, the bound behind it, how sure it is, and a witness where a promise is broken."""

from __future__ import annotations

import enum
import math
import platform
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from dpwitness.auditors.certificate import Tally
from dpwitness.auditors.combination import Part
from dpwitness.auditors.events import Event
from dpwitness.auditors.scores import Score
from dpwitness.mechanisms.notions import Claim
from dpwitness.mechanisms.pairs import Pair

__all__ = ["AuditResult", "BitLevel", "PairScore", "Result", "Verdict", "environment"]

SCHEMA = 1
_SHOWN = 400  # characters of a headline in a repr


class Verdict(enum.Enum):
    """Outcome of an audit. CERTIFIED: a proof or a stated error covers it; SUPPORTED: only numerics or an assumption do."""

    VIOLATED = "VIOLATED"
    NOT_REFUTED = "NOT_REFUTED"
    CERTIFIED = "CERTIFIED"
    SUPPORTED = "SUPPORTED"
    INCONCLUSIVE = "INCONCLUSIVE"
    ERROR = "ERROR"

    def __bool__(self) -> bool:
        raise TypeError(f"a verdict is no truth value: compare it, as in `verdict is Verdict.{self.name}`")


class Result(ABC):
    """Base of everything that a report can show: a name, a verdict, one line for a person, and JSON."""

    name: str
    verdict: Verdict

    @property
    def evidence(self) -> str:
        """What the verdict rests on, in one word: ``proved``, ``statistical``, ``numerical`` or ``assumed``."""
        return "numerical"

    @abstractmethod
    def headline(self) -> str:
        """Verdict, number, and how sure: one line."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Everything that was measured, as plain JSON types."""

    def __repr__(self) -> str:
        told = " ".join(self.headline().split())
        return f"<{type(self).__name__} {self.name!s:.60}: {told if len(told) <= _SHOWN else told[: _SHOWN - 3] + '...'}>"

    def __bool__(self) -> bool:
        raise TypeError("a result is no truth value: compare its verdict, as in `result.verdict is Verdict.VIOLATED`")


@dataclass(frozen=True, slots=True)
class BitLevel:
    """Verdict on the low bits of floating-point outputs, apart from the one on their values."""

    verdict: Verdict
    epsilon_lower: float
    pair: Pair | None = None
    event: Event | None = None
    tally: Tally | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict.value,
            "pair": self.pair.to_json() if self.pair else None,
            "epsilon_lower": strict(self.epsilon_lower),
            "event": self.event.to_json() if self.event else None,
            "description": self.event.describe() if self.event else None,
            "tally": _tally(self.tally),
        }


@dataclass(frozen=True, slots=True)
class PairScore:
    """A pair that the pilot tried, and the parameter that it promised to certify."""

    pair: Pair
    expected: float
    confirmed: bool

    def to_json(self) -> dict[str, Any]:
        return {"why": self.pair.why, "expected": strict(self.expected), "confirmed": self.confirmed}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AuditResult(Result):
    """Result of a black-box audit.

    Attributes
    ----------
    verdict : Verdict
        VIOLATED, NOT_REFUTED, INCONCLUSIVE (interrupted) or ERROR, at the level of values.
    epsilon_lower : float
        Certified lower bound on epsilon at the claim's delta (at delta = 0 for GDP, zCDP and RDP).
    parameter_lower : float
        Certified lower bound on the claim's own parameter: epsilon, mu or rho.
    detectable : float
        Smallest parameter at which a mechanism *of this event's kind* would have been refuted with probability 0.9, its event learned anew:
        one whose outputs differ as these do, only more. Another kind, such as a raw value in one of 1e4 runs, is not covered.
    bit_level : BitLevel or None
        The verdict on low bits; None where the outputs are no floating-point numbers.
    p_value : float
        Smallest error at which the claim is refuted, all looks and pairs paid for.
    """

    name: str
    claim: Claim
    verdict: Verdict
    confidence: float
    seed: int
    trials: int  # runs of the mechanism, all phases
    requested: int
    epsilon_lower: float = 0.0
    parameter_lower: float = 0.0
    p_value: float = 1.0
    detectable: float = math.inf
    pair: Pair | None = None
    event: Event | None = None
    tally: Tally | None = None
    stages: tuple[Part, ...] = ()  # where several events were tested, each trained on the rounds before it: all, the last being `tally`
    alpha: float = 0.0  # the error at which the last look certified the tally: looks and pairs have taken the rest
    method: str = ""
    bit_level: BitLevel | None = None
    pairs: tuple[PairScore, ...] = ()
    notes: tuple[str, ...] = ()
    target: dict[str, Any] | None = None
    seconds: float = 0.0
    scores: tuple[Score, ...] = ()  # whose columns stand before the outputs' own
    mechanism: Any = field(default=None, repr=False)

    @property
    def evidence(self) -> str:
        """``statistical``: counts and an exact binomial limit."""
        return "statistical"

    @property
    def limit(self) -> float | None:
        """Median of what the best test certifies at this number of trials: half of such exceed it.

        None without a law of the loss, or with one that fails: what was counted stands without it.
        """
        from dpwitness.auditors.limit import limit

        if self.pair is None or not hasattr(self.mechanism, "log_density"):
            return None
        try:
            return limit(self.mechanism, self.pair, self.claim, self.requested, self.confidence)
        except Exception:
            return None

    @property
    def witness(self) -> dict[str, Any] | None:
        """Everything that `dpwitness.replay` needs to reach the verdict again; None unless a claim was violated at some level."""
        from dpwitness.auditors.witness import make_witness

        return make_witness(self)

    @property
    def description(self) -> str | None:
        """The event in one line, with what its columns of scores are."""
        if self.event is None:
            return None
        labels = [label for score in self.scores for label in score.labels]
        told = "; ".join(f"output {i} is the score {label}" for i, label in enumerate(labels))
        return self.event.describe() + (f" ({told}; the output's own numbers follow)" if labels else "")

    def headline(self) -> str:
        symbol = self.claim.symbol
        sure = f"confidence {self.confidence:.12g}"
        if self.verdict is Verdict.VIOLATED:
            if math.isinf(self.parameter_lower):
                return f"VIOLATED: no finite {symbol} holds, certified against the claim {self.claim} ({sure})"
            return f"VIOLATED: {symbol} > {self.parameter_lower:.4g} certified against the claim {self.claim} ({sure})"
        if self.verdict is Verdict.NOT_REFUTED:
            found = f"a violation of this event's kind beyond {symbol} = {self.detectable:.4g} would have been found with probability 0.9"
            bound = f"{symbol} > {self.parameter_lower:.4g} certified ({sure})"
            return f"NOT REFUTED: no violation of {self.claim} found; {bound}; at this budget {found}"
        return f"{self.verdict.value}: {self.notes[0] if self.notes else 'no verdict'}"

    def to_json(self) -> dict[str, Any]:
        return {
            "schema_version": SCHEMA,
            "kind": "black box",
            "name": self.name,
            "claim": str(self.claim),
            "claim_numbers": list(self.claim.numbers),
            "relation": self.pair.relation if self.pair else None,
            "verdict": self.verdict.value,
            "headline": self.headline(),
            "evidence": self.evidence,
            "confidence": self.confidence,
            "epsilon_lower": strict(self.epsilon_lower),
            "parameter": self.claim.symbol,
            "parameter_lower": strict(self.parameter_lower),
            "p_value": self.p_value,
            "limit": strict(self.limit),
            "detectable": strict(self.detectable),
            "pair": self.pair.to_json() if self.pair else None,
            "event": self.event.to_json() if self.event else None,
            "description": self.description,
            "method": self.method,
            "tally": _tally(self.tally),
            "stages": [part.to_json() for part in self.stages],
            "alpha": self.alpha,
            "bit_level": self.bit_level.to_json() if self.bit_level else None,
            "pairs": [score.to_json() for score in self.pairs],
            "trials": self.trials,
            "requested": self.requested,
            "seed": self.seed,
            "notes": list(self.notes),
            "target": self.target,
            "environment": environment(),
            "seconds": round(self.seconds, 3),
        } | ({"scores": [score.to_json() for score in self.scores]} if self.scores else {})


def strict(value: Any) -> Any:
    """JSON types only: infinities and NaN as words, NumPy scalars and arrays as numbers and lists, tuples as lists."""
    if isinstance(value, Mapping):
        return {str(k): strict(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [strict(v) for v in value]
    if hasattr(value, "tolist"):
        return strict(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return "inf" if value > 0 else "-inf" if value < 0 else "nan"
    return value


def _tally(tally: Tally | None) -> dict[str, int] | None:
    if tally is None:
        return None
    return {"correct": tally.correct, "wrong": tally.wrong, "rounds": tally.rounds, "directions": tally.directions}


@cache
def environment() -> dict[str, str]:
    """Versions that an audit ran with."""
    found = {"python": platform.python_version(), "machine": platform.machine()}
    for package in ("dpwitness", "numpy", "scipy", "numba"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found
