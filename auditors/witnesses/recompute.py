"""Bounds and verdicts recomputed from the counts in a result's JSON document.

A document may have been edited by anyone. Where a document holds counts, its bounds and its
verdict must follow from them. The same function for canaries is
`dpwitness.auditors.canaries.audit.recompute_canaries`.

A cause of a violation is what one part of the outputs shows by itself, with the counts of its own
test.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

import numpy as np

from dpwitness.auditors.events.divergence import Binned, renyi_lower_bound
from dpwitness.auditors.events.event import Event, Restricted
from dpwitness.auditors.events.rule_reader import read_event
from dpwitness.auditors.statistics.certificate import (
    PARTS,
    Part,
    Prior,
    Tally,
    Within,
    certified,
    clopper_pearson_lower,
    partial_bound,
)
from dpwitness.auditors.statistics.combination import combined_bound, combined_p_value
from dpwitness.auditors.witnesses.verdicts import Verdict, strict
from dpwitness.core.claims import Claim, exact_claim
from dpwitness.core.values.json_codec import from_jsonable, to_jsonable
from dpwitness.core.values.json_reader import Json, refuse
from dpwitness.core.values.validation import InvalidArgument


@dataclass(frozen=True, slots=True)
class Cause:
    """Verdict on the events of one part of the outputs (`statistics/certificate.py`).

    Attributes
    ----------
    kind : {"exceptions", "repeated values", "values"}
        Part of the outputs. Repeated values are exact values of positive probability among numbers
        that do not repeat otherwise.
    words : str
        Description of the part.
    verdict : Verdict
        VIOLATED if events on this part violate the claim. INCONCLUSIVE if there are too few outputs
        to learn an event.
    lower : float
        Certified lower bound on the claim's parameter, both of the mechanism, and of the mechanism
        given that no part before this one occurs.
    event, tally, alpha, lost : Event, Tally, float, int
        Tested event, its counts, the error of the test, and the number of wrong guesses that are
        lost rounds.
    within : tuple of int or None
        Numbers of rounds on D1 and on D0 in which no part before this one occurs; None for the
        first part.
    """

    kind: str
    words: str
    verdict: Verdict = Verdict.INCONCLUSIVE
    lower: float = 0.0
    event: Event | None = None
    tally: Tally | None = None
    alpha: float = 0.0
    lost: int = 0
    within: Within | None = None

    def judged(self, claim: Claim) -> Self:
        """Return the cause with the bound and the verdict that follow from its counts."""
        if self.tally is None:
            return self
        side = self.event.side if isinstance(self.event, Restricted) else 0
        lower = partial_bound(claim, self.tally, self.alpha, self.lost, self.within, side)
        return replace(
            self,
            lower=lower,
            verdict=Verdict.VIOLATED if lower > claim.parameter else Verdict.NOT_REFUTED,
        )

    def to_json(self) -> Json:
        return {
            "kind": self.kind,
            "words": self.words,
            "verdict": self.verdict.value,
            "parameter_lower": strict(self.lower),
            "event": self.event.to_json() if self.event else None,
            "tally": self.tally and asdict(self.tally),
            "alpha": to_jsonable(self.alpha),
            "lost": self.lost,
            "within": self.within and list(self.within),
        }

    @classmethod
    def from_json(cls, data: Json) -> Self:
        """Return the cause that `to_json` wrote."""
        within, tally = data["within"], data["tally"]
        return cls(
            data["kind"],
            data["words"],
            Verdict(data["verdict"]),
            float(data["parameter_lower"]),
            None if data["event"] is None else read_event(data["event"]),
            None if tally is None else Tally(**tally),
            float(from_jsonable(data["alpha"])),
            data["lost"],
            None if within is None else (int(within[0]), int(within[1])),
        )


_BOUND_TOLERANCE = 1e-6  # relative difference between a stated bound and a computed one
# amount by which a sensitivity must exceed its bound, as the bound itself is rounded
_SENSITIVITY_MARGIN = 1e-7
_READ_ERRORS = (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError)


@dataclass(frozen=True, slots=True)
class Basis:
    """Counts that certified the bounds of an audit, and the error of their test."""

    alpha: float  # error of the interim look that certified `parts`
    parts: tuple[Part, ...]  # counts of all stages at that look, the last stage last
    # counts on D1 and on D0 of a binned event (RDP, zCDP). Such an event certifies the bound on the
    # claim's parameter.
    cells: tuple[tuple[int, ...], ...] = ()
    cells_alpha: float = 0.0  # error of the test of `cells`

    def to_json(self) -> Json:
        content: Json = {"alpha": self.alpha, "stages": [part.to_json() for part in self.parts]}
        if self.cells:
            content["cells"] = [list(side) for side in self.cells]
            content["cells_alpha"] = self.cells_alpha
        return content

    def counts(self) -> Json:
        """Return the counts as a witness holds them: those of the last stage, with the earlier
        stages.
        """
        content = self.to_json()
        *earlier, last = content.pop("stages")
        del last["weight"]
        combined = {"stages": earlier, "combination": "conditional error"} if earlier else {}
        return {**last, **combined, **content}

    @classmethod
    def from_json(cls, data: Json) -> Basis:
        """Return the Basis that `to_json` wrote."""
        return cls(
            float(data.get("alpha", 0.0)),
            tuple(read_part(part, f"stages[{i}]") for i, part in enumerate(data["stages"])),
            tuple(tuple(int(count) for count in side) for side in data.get("cells", ())),
            float(data.get("cells_alpha", 0.0)),
        )

    @classmethod
    def from_counts(cls, counts: Json) -> Basis:
        """Return the Basis of the counts of a witness; the error is 0 if they do not state it.

        Raise InvalidArgument if counts do not fit each other.
        """
        basis = cls.from_json(counts | {"stages": counts.get("stages", ())})
        squares = sum(part.weight**2 for part in basis.parts)
        if squares > 1 + 1e-9:
            refuse("counts.stages", "have weights whose squares add to at most 1", squares)
        return replace(basis, parts=(*basis.parts, read_part(counts)))

    def bounds(self, claim: Claim, event: Any) -> tuple[float, float]:
        """Return the lower bounds on the claim's parameter and on epsilon."""
        lower = combined_bound(claim, self.parts, self.alpha)
        epsilon_claim = claim.at_delta
        epsilon = (
            lower
            if epsilon_claim is claim or claim.is_pure
            else combined_bound(epsilon_claim, self.parts, self.alpha)
        )
        if self.cells and isinstance(event, Binned):
            lower = renyi_lower_bound(claim, event, np.array(self.cells), self.cells_alpha)
        return lower, epsilon

    def p_value(self, claim: Claim, error: float) -> float:
        """Return the p-value of the claim given `parts`, if all interim looks together spend
        `error`.
        """
        return min(1.0, combined_p_value(claim, self.parts) * error / self.alpha)


@dataclass(frozen=True, slots=True)
class RecomputedBounds:
    """Bounds and verdict that follow from a document's counts."""

    verdict: Verdict  # the document's verdict
    # computed number for each key of the document that was checked
    values: dict[str, float] = field(default_factory=dict)
    # keys whose value the document's counts do not determine
    unchecked: tuple[str, ...] = ()


def recompute_bounds(document: Json) -> RecomputedBounds:
    """Recompute the bounds and the verdict of a result from the counts in its JSON document.

    Kinds with counts are ``black box`` with its bit level, ``utility`` and ``sensitivity``. For
    another kind the result is the stated verdict without values. Raises InvalidArgument if a stated
    bound or verdict contradicts the counts, or the counts cannot be read.
    """
    try:
        verdict = Verdict(document["verdict"])
        check = {
            "black box": _check_black_box,
            "utility": _check_utility,
            "sensitivity": _check_sensitivity,
        }.get(document.get("kind", ""))
        return RecomputedBounds(verdict) if check is None else check(document, verdict)
    except InvalidArgument as error:
        content = str(error)
        raise InvalidArgument(
            content
            if content.startswith("result ")
            else f"result {document.get('name', '')!r}: {content}"
        ) from None
    except _READ_ERRORS as error:
        what = f"has no {error}" if isinstance(error, KeyError) else str(error)
        raise InvalidArgument(
            f"result {document.get('name', '')!r} cannot be read: {what}"
        ) from None


def read_part(data: Json, path: str = "counts") -> Part:
    """Return the counts of a stage from their JSON; raise InvalidArgument if they do not fit each
    other.
    """
    guesses, lost, weight = (
        data["correct"] + data["wrong"],
        data.get("lost", 0),
        data.get("weight", 1),
    )
    if guesses > data["rounds"]:
        allowed = f"be at most {path}.rounds, {data['rounds']}"
        refuse(f"{path}.correct + {path}.wrong", allowed, guesses)
    if not 0 <= lost <= data["wrong"]:
        refuse(f"{path}.lost", f"be at most the wrong guesses, {data['wrong']}", lost)
    if not 0 <= weight <= 1:
        refuse(f"{path}.weight", "be in [0, 1]", weight)
    return Part(
        Tally(data["correct"], data["wrong"], data["rounds"], data["directions"]),
        float(weight),
        lost,
        Prior(*map(float, data["prior"])) if "prior" in data else None,
    )


def require_stated_value(
    document: Json, key: str, found: float, within: float = _BOUND_TOLERANCE
) -> None:
    """Raise InvalidArgument unless the document states the number `found` under `key`."""
    stated = float(document[key])
    if not (
        math.isclose(stated, found, rel_tol=within, abs_tol=1e-9)
        or (math.isnan(stated) and math.isnan(found))
    ):
        _raise_contradiction(
            document, f"its counts give {key} = {found:.6g}, but it states {stated:.6g}"
        )


def require_verdict(document: Json, verdict: Verdict, refuted: bool, why: str) -> None:
    """Raise InvalidArgument if a verdict of VIOLATED, SUSPECT or NOT_REFUTED
    contradicts the bound.
    """
    right = Verdict.VIOLATED if refuted else Verdict.NOT_REFUTED
    allowed = (right, Verdict.SUSPECT) if refuted and document.get("guessed") else (right,)
    if (
        verdict in (Verdict.VIOLATED, Verdict.SUSPECT, Verdict.NOT_REFUTED)
        and verdict not in allowed
    ):
        _raise_contradiction(
            document, f"{why} gives {right.value}, but the document states {verdict.value}"
        )


def require_allowed_error(document: Json, stated: float, most: float) -> None:
    """Raise InvalidArgument if a test's error exceeds the error that the confidence allows."""
    if not 0 < stated <= most * (1 + 1e-9):
        _raise_contradiction(
            document,
            f"its confidence allows an error of {most:.6g}, its counts were tested at {stated:.6g}",
        )


def _raise_contradiction(document: Json, what: str) -> None:
    """Raise InvalidArgument for a document that contradicts its own counts."""
    raise InvalidArgument(f"result {document.get('name', '')!r} is damaged or edited: {what}")


def _check_black_box(document: Json, verdict: Verdict) -> RecomputedBounds:
    """Check the bounds, p-value and verdict of a black-box audit."""
    values: dict[str, float] = {}
    claim, lower = (
        exact_claim(document["claim"], document["claim_numbers"]),
        float(document["parameter_lower"]),
    )
    error = 1 - float(document["confidence"])
    if document.get("basis") is None:
        require_stated_value(document, "parameter_lower", 0.0)
    else:
        basis, event = Basis.from_json(document["basis"]), read_event(document["event"])
        for alpha in (basis.alpha, *([basis.cells_alpha] if basis.cells else [])):
            require_allowed_error(document, alpha, error)
        values["parameter_lower"], values["epsilon_lower"] = basis.bounds(claim, event)
        if not basis.cells:
            values["p_value"] = basis.p_value(claim, error)
        for key, found in values.items():
            require_stated_value(document, key, found)
    require_verdict(
        document, verdict, lower > claim.parameter, f"a bound of {lower:.6g} against {claim}"
    )
    p_value = float(document["p_value"])
    if (
        lower > claim.parameter
        and not document.get("basis", {}).get("cells")
        and not p_value <= error * (1 + _BOUND_TOLERANCE)
    ):
        _raise_contradiction(
            document,
            f"a refuted claim has a p-value of at most {error:.6g}, but the document states "
            f"{p_value:.6g}",
        )
    if document.get("bit_level"):
        _check_bit_level(document, claim, error, values)
    for cause in document.get("causes", []):
        _check_cause(
            cause
            | {
                "name": f"{document.get('name', '')} ({cause['kind']})",
                "guessed": document.get("guessed"),
            },
            claim,
            error,
        )
    return RecomputedBounds(verdict, values)


def _check_bit_level(document: Json, claim: Claim, error: float, values: dict[str, float]) -> None:
    """Check the bound and verdict of the bit level."""
    level: Json = {
        "name": f"{document.get('name', '')} (bit level)",
        "guessed": document.get("guessed"),
    } | document["bit_level"]
    counts, found = level.get("tally"), 0.0
    refuted = False
    if counts is not None:
        tally, alpha = read_part(counts).tally, float(level["alpha"])
        require_allowed_error(document, alpha, error)
        numbers = (tally.correct, tally.wrong, tally.rounds, alpha, tally.directions, level["lost"])
        found = float(certified(claim.at_delta, *numbers))
        refuted = float(certified(claim, *numbers)) > claim.parameter
    require_stated_value(level, "epsilon_lower", found)
    require_verdict(
        level, Verdict(level["verdict"]), refuted, f"a bound of {found:.6g} against {claim}"
    )
    values["bit_level.epsilon_lower"] = found


def _check_cause(data: Json, claim: Claim, error: float) -> None:
    """Check the bound and verdict of a cause of a violation."""
    cause = Cause.from_json(data)
    require_allowed_error(data, cause.alpha * PARTS, error)
    lower = cause.judged(claim).lower
    require_stated_value(data, "parameter_lower", lower)
    require_verdict(
        data, cause.verdict, lower > claim.parameter, f"a bound of {lower:.6g} against {claim}"
    )


def _check_sensitivity(document: Json, verdict: Verdict) -> RecomputedBounds:
    """Check that the verdict follows from the measured ratio. No counts are involved."""
    lower, ratio, upper = (float(document[key]) for key in ("ratio_lower", "ratio", "ratio_upper"))
    if lower > ratio * (1 + _BOUND_TOLERANCE) or ratio > upper * (1 + _BOUND_TOLERANCE):
        _raise_contradiction(
            document, f"its ratio {ratio:.6g} lies outside its limits, {lower:.6g} and {upper:.6g}"
        )
    require_verdict(
        document, verdict, lower > 1 + _SENSITIVITY_MARGIN, f"a ratio of at least {lower:.9g}"
    )
    return RecomputedBounds(verdict, {"ratio_lower": lower}, ("ratio",))


def _check_utility(document: Json, verdict: Verdict) -> RecomputedBounds:
    """Check the limits of a frequency by its counts, and the verdict of a mean or a slope by its
    measured limits.
    """
    claimed = document.get("claimed")
    if claimed is None or verdict is Verdict.ERROR:
        return RecomputedBounds(verdict, {}, ("lower", "upper"))
    lower, values = float(document["lower"]), dict[str, float]()
    if claimed["kind"] == "failures":
        runs, alpha = int(document["runs"]), 1 - float(document["confidence"])
        failures = round(float(document["estimate"]) * runs)
        require_stated_value(document, "estimate", failures / runs)
        values = {
            "lower": float(clopper_pearson_lower(failures, runs, alpha)),
            "upper": 1 - float(clopper_pearson_lower(runs - failures, runs, alpha)),
        }
        for key, found in values.items():
            require_stated_value(document, key, found)
    refuted = lower > claimed["limit"] and (
        "margin" not in claimed
        or float(document["estimate"]) > claimed["limit"] + claimed["margin"]
    )
    require_verdict(
        document, verdict, refuted, f"a lower limit of {lower:.6g} against {document['claim']}"
    )
    return RecomputedBounds(verdict, values, () if values else ("lower", "upper"))
