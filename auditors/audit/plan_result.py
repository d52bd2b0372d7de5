"""Result of a plan: required runs, detectable violations, and expected time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from dpwitness.auditors.audit.timing import format_duration
from dpwitness.auditors.witnesses.verdicts import SCHEMA, strict
from dpwitness.core.claims import Claim
from dpwitness.core.values.json_reader import Json

MOST = 10**12  # largest number of runs


@dataclass(frozen=True, slots=True)
class Row:
    """Prediction for one number of runs; None where a number does not apply."""

    trials: int
    chance: float | None  # probability of finding the violation `find`
    # smallest violation of the plan's shape that is found with the plan's power
    detectable: float | None
    certified: float | None  # median parameter that an audit of the mechanism's own law certifies
    seconds: float | None  # expected time


@dataclass(frozen=True, slots=True)
class Plan:
    """Required number of runs of an audit, and the violations that a number of runs can find.

    Parameters
    ----------
    claim : Claim
        The claim to refute.
    shape : str
        ``"coin"``, ``"laplace"``, ``"gaussian"``, or ``"own"``, the mechanism's own law.
    find : float, optional
        Parameter of the violation to find.
    needed : int, optional
        Number of runs that finds the violation with probability `power`. None if no number up to
        1e12 does, or there is no violation.
    given : int, optional
        Number of runs that the user gave.
    detectable, chance : float, optional
        Smallest violation that the given runs find with probability `power`, and their probability
        of finding `find`.
    power, confidence : float
        Probability of VIOLATED, and confidence of the audit.
    pairs : int
        Number of pairs from which a pilot picks.
    seconds_per_run, expected_seconds : float, optional
        Seconds per run, measured with `workers` workers, and expected seconds of the given or else
        the needed runs.
    name : str
        Name of the mechanism; empty without a mechanism.
    workers : int
        Number of workers on which the mechanism was timed.
    rows : tuple of Row
        Predictions for several numbers of runs.
    assumes : tuple of str
        Assumptions of the plan.
    """

    claim: Claim
    shape: str
    find: float | None
    needed: int | None
    given: int | None
    detectable: float | None
    chance: float | None
    power: float
    confidence: float
    pairs: int
    name: str
    workers: int
    seconds_per_run: float | None
    expected_seconds: float | None
    rows: tuple[Row, ...]
    assumes: tuple[str, ...]

    @property
    def impossible(self) -> bool:
        """Return whether there is a violation to find, but no number of runs up to 1e12
        finds it.
        """
        return self.find is not None and self.find > self.claim.parameter and self.needed is None

    def headline(self) -> str:
        """Return the required runs, or the detectable violation, in one line."""
        symbol, likely = self.claim.symbol, f"with probability {self.power:g}"
        time_text = (
            f", in about {format_duration(self.expected_seconds)}"
            if self.expected_seconds is not None
            else ""
        )
        if self.find is not None and self.find <= self.claim.parameter:
            return (
                f"nothing to find: {symbol} = {self.find:.6g} on this pair, where {self.claim} "
                "holds"
            )
        what = (
            f"a violation of {self.claim} by {symbol} = {self.find:.12g} ({self.shape})"
            if self.find is not None
            else ""
        )
        if self.impossible:
            return f"out of reach: no audit of at most {MOST:.0e} runs finds {what} {likely}"
        if self.find is not None:
            found = f"{self.needed:,} runs find {what} {likely}"
            given_text = (
                f"; {self.given:,} runs with probability {self.chance:.2g}"
                if self.given is not None
                else ""
            )
            return found + given_text + time_text
        if self.detectable is None or math.isinf(self.detectable):
            return (
                f"{self.given:,} runs find no violation of {self.claim} ({self.shape}) "
                f"{likely}{time_text}"
            )
        return (
            f"{self.given:,} runs find a violation of {self.claim} from {symbol} = "
            f"{self.detectable:.6g} on ({self.shape})"
            f" {likely}{time_text}"
        )

    def table(self) -> list[list[str]]:
        """Return the rows as text, under a header, without empty columns."""
        symbol = self.claim.symbol
        columns: list[tuple[str, list[Any], Callable[[Any], str]]] = [
            ("runs", [row.trials for row in self.rows], lambda v: f"{v:,}"),
            (
                f"{symbol} found with probability {self.power:g}",
                [row.detectable for row in self.rows],
                _format_violation,
            ),
            (
                f"{symbol} that half certify",
                [row.certified for row in self.rows],
                _format_violation,
            ),
            (
                "" if self.find is None else f"chance to find {self.find:.12g}",
                [row.chance for row in self.rows],
                lambda v: f"{v:.2g}",
            ),
            ("time", [row.seconds for row in self.rows], format_duration),
        ]
        texts = [
            (head, [write(v) for v in values])
            for head, values, write in columns
            if values and values[0] is not None
        ]
        return [
            [head for head, _ in texts],
            *map(list, zip(*(values for _, values in texts), strict=True)),
        ]

    def to_json(self) -> Json:
        """Return the fields as JSON values."""
        return {
            "schema_version": SCHEMA,
            "kind": "plan",
            "headline": self.headline(),
            **strict({key: value for key, value in asdict(self).items() if key != "claim"}),
            "claim": str(self.claim),
            "claim_numbers": list(self.claim.numbers),
            "parameter": self.claim.symbol,
            "impossible": self.impossible,
        }

    def __str__(self) -> str:
        table = self.table()
        width = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = [
            "  " + "   ".join(text.rjust(size) for text, size in zip(row, width, strict=True))
            for row in table
        ]
        return "\n".join(
            [self.headline(), "", *lines, "", *(f"  assumes  {text}" for text in self.assumes)]
        )


def _format_violation(value: float) -> str:
    """Return the parameter as text, or "none" for infinity."""
    return "none" if math.isinf(value) else f"{value:.6g}"
