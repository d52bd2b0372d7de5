"""Result of a deterministic audit whose question is guessed: a violation that holds if a scan has
read the function correctly.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dpwitness.auditors.witnesses.verdicts import Result, Verdict, document
from dpwitness.core.values.json_reader import Json


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GuessedResult(Result):
    """Violation of a guessed claim about an accountant or a transformation.

    Attributes
    ----------
    name : str
        Name of the audited function.
    guess : str
        What a scan has guessed.
    finding : Result
        The violation, if the guess is right.
    verdict : Verdict
        SUSPECT.
    """

    name: str
    guess: str
    finding: Any
    verdict: Verdict = field(default=Verdict.SUSPECT, init=False)

    @property
    def evidence(self) -> str:
        """Return the evidence of the finding."""
        return str(self.finding.evidence)

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what is guessed, and the notes of the finding."""
        return (f"not confirmed: {self.guess}", *self.finding.notes)

    @property
    def target(self) -> Json | None:
        """Return the target of the finding."""
        found: Json | None = self.finding.target
        return found

    @property
    def seconds(self) -> float:
        """Return the duration of the finding's audit, in seconds."""
        return float(self.finding.seconds)

    def headline(self) -> str:
        """Return the finding in one line, as a suspicion."""
        return f"SUSPECT: {self.finding.headline().removeprefix('VIOLATED: ')}, if {self.guess}"

    def to_json(self) -> Json:
        found = self.finding.to_json()
        return document(
            self, "guessed", found.get("claim"), {"guessed": self.guess, "finding": found}
        )


def with_guess(result: Result, guess: object) -> Result:
    """Return the result, or a suspicion in place of a violation if something about the claim is
    guessed.
    """
    if result.verdict is Verdict.VIOLATED and isinstance(guess, str) and guess:
        return GuessedResult(result.name, guess, result)
    return result
