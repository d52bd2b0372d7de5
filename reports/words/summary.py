"""What several audits say together: how many of each verdict, and what survives being judged as a family."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dpwitness.auditors.results.verdicts import Verdict
from dpwitness.mechanisms.terms.protocol import FloatArray
from dpwitness.mechanisms.terms.reading import Json
from dpwitness.reports.words.wording import number


def holm(p_values: ArrayLike) -> FloatArray:
    """Holm's adjusted p-values: rejecting those at most a errs anywhere with probability at most a, whatever the dependence.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


@dataclass(frozen=True, slots=True)
class Family:
    """All audits of a report that come with a p-value, judged together.

    Attributes
    ----------
    error : float
        Family-wise error: the smallest that any of the audits was run at.
    adjusted : dict
        Holm-adjusted p-value by position in the report.
    refuted : tuple of int
        Positions whose claim is refuted at `error` for the whole family.
    alone : tuple of int
        Positions VIOLATED by themselves but not within the family.
    """

    error: float
    adjusted: dict[int, float]
    refuted: tuple[int, ...]
    alone: tuple[int, ...]


def family(results: Sequence[Json]) -> Family | None:
    """The family of a report's audits; None where fewer than two carry a p-value and a confidence."""
    members = [i for i, r in enumerate(results) if number(r.get("p_value")) is not None and number(r.get("confidence")) is not None]
    if len(members) < 2:
        return None
    adjusted = dict(zip(members, holm([results[i]["p_value"] for i in members]).tolist(), strict=True))
    error = min(error_of(results[i]["confidence"]) for i in members)
    violated = [i for i in members if results[i].get("verdict") == Verdict.VIOLATED.value]
    refuted = tuple(i for i in violated if adjusted[i] <= error)
    return Family(error, adjusted, refuted, tuple(i for i in violated if adjusted[i] > error))


def error_of(confidence: float) -> float:
    """1 - confidence without the noise of the subtraction: 0.01, and not 0.010000000000000009, for 0.99."""
    return float(f"{1.0 - confidence:.6g}")


def tally_of_verdicts(results: Sequence[Json]) -> dict[str, int]:
    """How often each verdict occurs, those that never do included."""
    found = Counter(str(r.get("verdict")) for r in results)
    return {v.value: found.get(v.value, 0) for v in Verdict}


def violated_in_bits(result: Json) -> bool:
    """Whether the low bits of the outputs break the claim."""
    return (result.get("bit_level") or {}).get("verdict") == Verdict.VIOLATED.value


def acceptance(result: Json) -> str:
    """Why and until when violations of a result are accepted; empty where none is."""
    found = result.get("accepted")
    return f"until {found['expires']}: {found['reason']} ({', '.join(found['rules'])})" if found else ""
