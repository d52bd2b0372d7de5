"""Counts from which the bounds of results and witnesses follow.

A cause of a violation is what one part of the outputs shows by itself, with the counts of its own
test.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np

from dpwitness.auditors.events.event import Binned, Event, Restricted, renyi_lower_bound
from dpwitness.auditors.events.rule_reader import read_event
from dpwitness.auditors.statistics.certificate import Part, Prior, Tally, Within, partial_bound
from dpwitness.auditors.statistics.combination import combined_bound, combined_p_value
from dpwitness.auditors.witnesses.verdicts import Verdict, strict
from dpwitness.core.claims import Claim
from dpwitness.core.values.json_codec import from_jsonable, to_jsonable
from dpwitness.core.values.json_reader import Json, refuse
from dpwitness.core.values.wording import figure


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


def describe_causes(result: Json) -> str:
    """Return the verdicts on the causes of a violation in one line; empty if causes were not
    separated.

    Examples
    --------
    >>> causes = [("exceptions", "raises KeyError", "VIOLATED", 4.25),
    ...     ("values", "", "NOT_REFUTED", 0.5)]
    >>> keys = ("kind", "words", "verdict", "parameter_lower")
    >>> describe_causes({"parameter": "mu", "causes": [dict(zip(keys, cause)) for cause in causes]})
    'VIOLATED by exceptions (raises KeyError), mu > 4.25; NOT REFUTED by values, mu > 0.5'
    """
    lines = []
    for cause in result.get("causes") or ():
        words = f" ({cause['words']})" if cause["words"] else ""
        bound = f", {result.get('parameter', 'epsilon')} > {figure(cause['parameter_lower'])}"
        counted = cause["verdict"] not in ("INCONCLUSIVE", "ERROR")
        verdict = cause["verdict"].replace("_", " ")
        lines.append(f"{verdict} by {cause['kind']}{words}{bound if counted else ''}")
    return "; ".join(lines)


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
        same = claim.is_pure or claim.at_delta is claim
        epsilon = lower if same else combined_bound(claim.at_delta, self.parts, self.alpha)
        if self.cells and isinstance(event, Binned):
            lower = renyi_lower_bound(claim, event, np.array(self.cells), self.cells_alpha)
        return lower, epsilon

    def p_value(self, claim: Claim, error: float) -> float:
        """Return the p-value of the claim given `parts`, if all interim looks together spend
        `error`.
        """
        return min(1.0, combined_p_value(claim, self.parts) * error / self.alpha)


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
