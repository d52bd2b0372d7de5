"""Bounds and verdicts computed again from the counts of a result's JSON document.

A document is text that anybody may have edited. Where it holds counts, its bounds and its verdict must follow from them. Canaries have
a function of the same kind: `dpwitness.auditors.canaries.again.recompute_canaries`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpwitness.auditors.events.divergence import Binned, binned_bound
from dpwitness.auditors.events.reading import read_event
from dpwitness.auditors.results.verdicts import Verdict
from dpwitness.auditors.statistics.certificate import Tally, certified, cp_lower
from dpwitness.auditors.statistics.combination import Part, combined
from dpwitness.mechanisms.terms.notions import Claim, exact_claim
from dpwitness.mechanisms.terms.reading import Json
from dpwitness.mechanisms.terms.validation import InvalidArgument

_CLOSE = 1e-6  # relative difference between a stated bound and a computed one
_SLACK = 1e-7  # by which a sensitivity must exceed its bound: the rounding of the bound itself
_DAMAGED = (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError)


@dataclass(frozen=True, slots=True)
class Basis:
    """Counts that certified the bounds of an audit, and the error at which they did.

    Parameters
    ----------
    alpha : float
        Error of the look that certified `parts`.
    parts : tuple of Part
        Counts of all stages at that look, the last stage last.
    cells : tuple of two tuples of int, optional
        Counts on D1 and on D0 of a binned event (RDP, zCDP), which then certifies the bound on the claim's parameter.
    cells_alpha : float
        Error of the test of `cells`.
    """

    alpha: float
    parts: tuple[Part, ...]
    cells: tuple[tuple[int, ...], ...] = ()
    cells_alpha: float = 0.0

    def to_json(self) -> Json:
        told: Json = {"alpha": self.alpha, "stages": [part.to_json() for part in self.parts]}
        return told | ({"cells": [list(side) for side in self.cells], "cells_alpha": self.cells_alpha} if self.cells else {})

    @classmethod
    def from_json(cls, data: Json) -> Basis:
        """Read what `to_json` wrote."""
        cells = tuple(tuple(int(count) for count in side) for side in data.get("cells", ()))
        return cls(float(data["alpha"]), tuple(map(read_part, data["stages"])), cells, float(data.get("cells_alpha", 0.0)))

    def bounds(self, claim: Claim, event: Any) -> tuple[float, float]:
        """Return the lower bounds on the claim's parameter and on epsilon."""
        lower = combined(claim, self.parts, self.alpha)
        wanted = claim.at_delta
        epsilon = lower if wanted is claim or claim.is_pure else combined(wanted, self.parts, self.alpha)
        if self.cells and isinstance(event, Binned):
            lower = binned_bound(claim, event, np.array(self.cells), self.cells_alpha)
        return lower, epsilon


@dataclass(frozen=True, slots=True)
class Recomputed:
    """Bounds and verdict that follow from a document's counts.

    `values` holds the computed number for each key of the document that was checked. `unchecked` names keys whose value the document's
    counts do not determine, as in documents of earlier versions.
    """

    verdict: Verdict
    values: dict[str, float] = field(default_factory=dict)
    unchecked: tuple[str, ...] = ()


def recompute_bounds(document: Json) -> Recomputed:
    """Compute the bounds and the verdict of a result again from the counts of its JSON document.

    Parameters
    ----------
    document : dict
        What ``to_json`` of a result gives. Kinds with counts: ``black box`` with its bit level, ``utility``, ``sensitivity``.

    Returns
    -------
    Recomputed
        The stated verdict, with no values, for a kind that has no counts.

    Raises
    ------
    InvalidArgument
        If a stated bound or verdict contradicts the counts, or the counts cannot be read.
    """
    try:
        verdict = Verdict(document["verdict"])
        check = {"black box": _black_box, "utility": _utility, "sensitivity": _sensitivity}.get(document.get("kind", ""))
        return Recomputed(verdict) if check is None else check(document, verdict)
    except InvalidArgument as error:
        told = str(error)
        raise InvalidArgument(told if told.startswith("result ") else f"result {document.get('name', '')!r}: {told}") from None
    except _DAMAGED as error:
        what = f"has no {error}" if isinstance(error, KeyError) else str(error)
        raise InvalidArgument(f"result {document.get('name', '')!r} cannot be read: {what}") from None


def read_part(data: Json) -> Part:
    """Read the counts of a stage."""
    tally = Tally(data["correct"], data["wrong"], data["rounds"], data["directions"])
    if not 0 <= data.get("lost", 0) <= tally.wrong or not 0 <= data.get("weight", 1.0) <= 1:
        raise InvalidArgument(f"counts must have 0 <= lost <= wrong = {tally.wrong} and a weight in [0, 1], got {data}")
    return Part(tally, float(data.get("weight", 1.0)), data.get("lost", 0))


def require_stated(document: Json, key: str, found: float, within: float = _CLOSE) -> None:
    """Raise InvalidArgument unless the document states this number under a key."""
    stated = float(document[key])
    if not (math.isclose(stated, found, rel_tol=within, abs_tol=1e-9) or (math.isnan(stated) and math.isnan(found))):
        _contradiction(document, f"its counts give {key} = {found:.6g}, it says {stated:.6g}")


def require_verdict(document: Json, verdict: Verdict, refuted: bool, why: str) -> None:
    """Raise InvalidArgument if a verdict of VIOLATED or NOT_REFUTED is not the one that the bound gives."""
    right = Verdict.VIOLATED if refuted else Verdict.NOT_REFUTED
    if verdict in (Verdict.VIOLATED, Verdict.NOT_REFUTED) and verdict is not right:
        _contradiction(document, f"{why} gives {right.value}, it says {verdict.value}")


def require_error(document: Json, stated: float, most: float) -> None:
    """Raise InvalidArgument if an error is above what the confidence allows."""
    if not 0 < stated <= most * (1 + 1e-9):
        _contradiction(document, f"its confidence allows an error of {most:.6g}, its counts were tested at {stated:.6g}")


def _contradiction(document: Json, what: str) -> None:
    raise InvalidArgument(f"result {document.get('name', '')!r} is damaged or edited: {what}")


def _black_box(document: Json, verdict: Verdict) -> Recomputed:
    values: dict[str, float] = {}
    claim, lower = exact_claim(document["claim"], document["claim_numbers"]), float(document["parameter_lower"])
    error, unchecked = 1 - float(document["confidence"]), tuple[str, ...]()
    if document.get("tally") is None:
        require_stated(document, "parameter_lower", 0.0)
    elif "basis" in document:
        basis, event = Basis.from_json(document["basis"]), read_event(document["event"])
        for alpha in (basis.alpha, *([basis.cells_alpha] if basis.cells else [])):
            require_error(document, alpha, error)
        values["parameter_lower"], values["epsilon_lower"] = basis.bounds(claim, event)
        for key, found in values.items():
            require_stated(document, key, found)
    else:
        unchecked = _without_basis(document, claim, values)
    require_verdict(document, verdict, lower > claim.parameter, f"a bound of {lower:.6g} against {claim}")
    p_value = float(document["p_value"])
    if lower > claim.parameter and not document.get("basis", {}).get("cells") and not p_value <= error * (1 + _CLOSE):
        _contradiction(document, f"a refuted claim has a p-value of at most {error:.6g}, it says {p_value:.6g}")
    if document.get("bit_level"):
        _bit_level(document, claim, error, values)
    return Recomputed(verdict, values, unchecked)


def _without_basis(document: Json, claim: Claim, values: dict[str, float]) -> tuple[str, ...]:
    """Check a document of an earlier version, whose counts are those of the last look: an earlier look may have certified more."""
    parts = [read_part(part) for part in document.get("stages") or [document["tally"]]]
    alpha, lower = float(document["alpha"]), float(document["parameter_lower"])
    event = read_event(document["event"]) if document.get("event") else None
    looks = [float(bound) for _, bound in document.get("looks", [])]
    if looks and not math.isclose(lower, max(looks), rel_tol=_CLOSE, abs_tol=1e-9):
        _contradiction(document, f"its looks certified {max(looks):.6g}, it says {lower:.6g}")
    if isinstance(event, Binned) or not 0 < alpha < 1:
        return ("parameter_lower", "epsilon_lower")
    found = combined(claim, parts, alpha)
    if lower > found * (1 + _CLOSE) + 1e-9 and (len(looks) < 2 or looks[-2] != max(looks)):
        _contradiction(document, f"its counts give at most parameter_lower = {found:.6g}, it says {lower:.6g}")
    if math.isclose(lower, found, rel_tol=_CLOSE, abs_tol=1e-9):
        values["parameter_lower"] = found
        return ()
    return ("parameter_lower", "epsilon_lower")


def _bit_level(document: Json, claim: Claim, error: float, values: dict[str, float]) -> None:
    level: Json = {"name": f"{document.get('name', '')} (bit level)"} | document["bit_level"]
    stated, counts, found = float(level["epsilon_lower"]), level.get("tally"), 0.0
    refuted = False
    if counts is not None:
        tally, alpha = read_part(counts).tally, float(level.get("alpha", error))
        require_error(document, alpha, error)
        numbers = (tally.correct, tally.wrong, tally.rounds, alpha, tally.directions, level.get("lost", 0))
        found = float(certified(claim.at_delta, *numbers))
        refuted = float(certified(claim, *numbers)) > claim.parameter
    if "alpha" in level or counts is None or stated > found:
        require_stated(level, "epsilon_lower", found)
        require_verdict(level, Verdict(level["verdict"]), refuted, f"a bound of {found:.6g} against {claim}")
    elif not refuted:  # a document of an earlier version, which does not say how many rounds were lost
        require_verdict(level, Verdict(level["verdict"]), False, f"a bound of {found:.6g} against {claim}")
    values["bit_level.epsilon_lower"] = found


def _sensitivity(document: Json, verdict: Verdict) -> Recomputed:
    """A ratio is measured, not computed from counts: the verdict must follow from it."""
    lower, ratio, upper = (float(document[key]) for key in ("ratio_lower", "ratio", "ratio_upper"))
    if lower > ratio * (1 + _CLOSE) or ratio > upper * (1 + _CLOSE):
        _contradiction(document, f"its ratio {ratio:.6g} lies outside its limits, {lower:.6g} and {upper:.6g}")
    require_verdict(document, verdict, lower > 1 + _SLACK, f"a ratio of at least {lower:.9g}")
    return Recomputed(verdict, {"ratio_lower": lower}, ("ratio",))


def _utility(document: Json, verdict: Verdict) -> Recomputed:
    """A frequency has counts: its limits follow. A mean and a slope are measured: the verdict must follow from their limits."""
    claimed = document.get("claimed")
    if claimed is None or verdict is Verdict.ERROR:
        return Recomputed(verdict, {}, ("lower", "upper"))
    lower, values = float(document["lower"]), dict[str, float]()
    if claimed["kind"] == "failures":
        runs, alpha = int(document["runs"]), 1 - float(document["confidence"])
        failures = round(float(document["estimate"]) * runs)
        require_stated(document, "estimate", failures / runs)
        values = {"lower": float(cp_lower(failures, runs, alpha)), "upper": 1 - float(cp_lower(runs - failures, runs, alpha))}
        for key, found in values.items():
            require_stated(document, key, found)
    refuted = lower > claimed["limit"] and ("margin" not in claimed or float(document["estimate"]) > claimed["limit"] + claimed["margin"])
    require_verdict(document, verdict, refuted, f"a lower limit of {lower:.6g} against {document['claim']}")
    return Recomputed(verdict, values, () if values else ("lower", "upper"))
