"""Result of a canary audit: the number of right guesses, the refuted parameter, and the
assumptions.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import ClassVar

from dpwitness.auditors.witnesses.result import ClaimResult
from dpwitness.auditors.witnesses.verdicts import Verdict, strict
from dpwitness.core.values.json_reader import Json


@dataclass(frozen=True, slots=True)
class GuessTest:
    """Number of guesses and of right guesses, the error `alpha` of their test, and the parameter
    that they refute.
    """

    guesses: int
    right: int
    alpha: float
    lower: float


@dataclass(frozen=True, slots=True)
class CanaryPicture:
    """Histograms of the canaries' scores, and the bound by number of guesses."""

    edges: tuple[float, ...]  # edges of the histogram's cells
    included: tuple[int, ...]  # counts of canaries in the training set
    left_out: tuple[int, ...]
    guessed_in: tuple[int, ...]  # counts of canaries guessed to be in the training set
    guessed_out: tuple[int, ...]
    # number of guesses, number of right guesses, and the parameter that this number of guesses
    # alone would refute
    course: tuple[tuple[int, int, float], ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class CanaryResult(ClaimResult):
    """Result of an audit of private training by canaries.

    Attributes
    ----------
    verdict : Verdict
        VIOLATED where the claim is refuted at the confidence, else NOT_REFUTED.
    parameter_lower : float
        Certified lower bound on the claim's own parameter: epsilon, mu, or the parameter of the
        curve.
    epsilon_lower : float
        The same bound as an epsilon at `delta`. For the claim of a curve, this is the epsilon of
        that curve and says nothing about other curves.
    gaussian_lower : float
        Epsilon at `delta` of the largest Gaussian curve that is refuted, at the same confidence
        and without sharing the error with other tests. Useful where the noise is known to be
        Gaussian. NaN where delta is 0.
    detectable : float
        Smallest epsilon at `delta` of Gaussian noise on isolated canaries that would have been
        refuted with probability 0.9. Where delta is 0, the noise is randomized response.
    p_value : float
        Smallest error at which the claim is refuted, corrected for the choice of the number of
        guesses.
    guesses, right : int
        Number of guesses that certify the bound, and how many of them are right.
    tested : tuple of Guessed
        All numbers of guesses that share the error.
    canaries, runs : int
        Number of canaries in all runs together, and number of runs.
    method : str
        ``counting``, ``steinke`` or ``curve``.
    fixed : bool
        Whether the numbers of guesses were fixed before the scores were seen.
    claim, delta, confidence, seed, name, target
        Arguments of `dpwitness.audit_canaries`.
    included : int
        Number of canaries in the training data, in all runs together.
    alpha : float
        Error of the test that certifies the bound, after the correction for all tests.
    picture : CanaryPicture or None
        Histograms of the scores, an illustration that certifies nothing.
    notes : tuple of str
        Remarks for the reader.
    seconds : float
        Duration, in seconds.
    """

    kind: ClassVar[str] = "canaries"

    method: str
    fixed: bool
    canaries: int
    included: int
    runs: int
    delta: float
    guesses: int
    right: int
    alpha: float
    parameter_lower: float
    epsilon_lower: float
    p_value: float
    gaussian_lower: float = math.nan
    detectable: float = math.inf
    tested: tuple[GuessTest, ...] = ()
    picture: CanaryPicture | None = None

    @property
    def evidence(self) -> str:
        """Return ``statistical``: the verdict rests on counts and a theorem for independent fair
        coins.
        """
        return "statistical"

    @property
    def advice(self) -> str:
        """What to do next, if the claim is not refuted."""
        return (
            "no change is needed on this evidence; more canaries or runs find smaller violations: "
            "dpwitness plan --canaries M --runs R"
        )

    @property
    def replay_advice(self) -> str:
        """What to do after the bound was recomputed from the counts of a witness."""
        if self.verdict is not Verdict.VIOLATED:
            return "the counts do not refute this claim"
        return (
            "the bound follows from the counts of the file; nothing was run: audit the canaries "
            "again to confirm the counts"
        )

    def _witness_fields(self) -> Json | None:
        """Return the counts, from which a replay recomputes the bound; None unless the claim is
        violated.
        """
        if self.verdict is not Verdict.VIOLATED:
            return None
        return {
            "claim": str(self.claim),
            "claim_numbers": list(self.claim.numbers),
            "method": self.method,
            "fixed": self.fixed,
            "delta": self.delta,
            "counts": {
                "canaries": self.canaries,
                "included": self.included,
                "runs": self.runs,
                "guesses": self.guesses,
                "right": self.right,
            },
            "alpha": self.alpha,
            "bound": strict(self.parameter_lower),
            "confidence": self.confidence,
        }

    def headline(self) -> str:
        """Return the verdict, the bound, the confidence and the counts in one line."""
        symbol, confidence_text = self.claim.symbol, f"confidence {self.confidence:.12g}"
        epsilon_text = (
            f" (epsilon > {self.epsilon_lower:.4g} at delta = {self.delta:g})"
            if symbol != "epsilon"
            else ""
        )
        of = (
            f"{self.right} of {self.guesses} guesses right, {self.canaries:,} canaries, "
            f"{self.runs} run{'s' if self.runs > 1 else ''}"
        )
        bound = f"{symbol} > {self.parameter_lower:.4g}{epsilon_text} certified"
        if self.verdict is Verdict.VIOLATED:
            return f"VIOLATED: {bound} against the claim {self.claim} ({confidence_text}; {of})"
        law = "Gaussian noise" if self.delta else "randomized response"
        found = (
            f"with this few canaries, no epsilon of {law} would be found with probability 0.9"
            if math.isinf(self.detectable)
            else f"{law} of epsilon = {self.detectable:.4g} on isolated canaries would have been "
            "found with probability 0.9"
        )
        return (
            f"NOT REFUTED: no violation of {self.claim} found; {bound} ({confidence_text}; "
            f"{of}); {found}"
        )

    def _fields(self) -> Json:
        return {
            "confidence": self.confidence,
            "method": self.method,
            "fixed": self.fixed,
            "parameter": self.claim.symbol,
            "parameter_lower": strict(self.parameter_lower),
            "epsilon_lower": strict(self.epsilon_lower),
            "delta": self.delta,
            "gaussian_lower": strict(self.gaussian_lower),
            "p_value": self.p_value,
            "detectable": strict(self.detectable),
            "canaries": self.canaries,
            "included": self.included,
            "runs": self.runs,
            "guesses": self.guesses,
            "guessed_right": self.right,
            "alpha": self.alpha,
            "tested": [strict(asdict(each)) for each in self.tested],
            "picture": strict(asdict(self.picture)) if self.picture else None,
        }
