"""Causes of a violation: what one part of the outputs shows by itself, with the counts of its own
test.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Self

from dpwitness.auditors.events.event import Event, Restricted
from dpwitness.auditors.events.rule_reader import read_event
from dpwitness.auditors.statistics.certificate import Tally, Within, partial_bound
from dpwitness.auditors.witnesses.verdicts import Verdict, strict
from dpwitness.core.claims import Claim
from dpwitness.core.values.json_codec import from_jsonable, to_jsonable
from dpwitness.core.values.json_reader import Json


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
