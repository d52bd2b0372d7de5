"""Result of an audit of an accountant."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from dpwitness.auditors.accounting.figures import FIGURES, LOOSE
from dpwitness.auditors.accounting.search import Comparison
from dpwitness.auditors.results.verdicts import Result, Verdict, environment, strict
from dpwitness.auditors.results.witness import function_witness
from dpwitness.mechanisms.core.json_reader import Json


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AccountantResult(Result):
    """Result of an audit of an accountant.

    Attributes
    ----------
    verdict : Verdict
        VIOLATED if a figure is certainly below the exact one, NOT_REFUTED if none was found, ERROR if no figure could be compared.
    mechanism, returns, parameters, seed
        Arguments of `dpwitness.accounting.audit_accountant`.
    at : dict
        Parameters of the mechanism and of the figure at the violation; without a violation, where the figure is lowest.
    figure, exact : float
        Figure of the accountant and the exact figure, at `at`. The exact figure is a rigorous lower bound.
    loosest : dict or None
        Parameters, figure and exact figure where the ratio of the two is largest.
    compared, failed : int
        Number of figures that were compared, and of calls that raised or returned no number.
    notes : tuple of str
        Remarks for the reader.
    seconds : float
        Duration, in seconds.
    """

    name: str
    verdict: Verdict
    mechanism: str
    returns: str
    parameters: Mapping[str, str]
    at: Mapping[str, Any]
    figure: float
    exact: float
    loosest: Mapping[str, Any] | None
    compared: int
    failed: int
    seed: int
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    function: Callable[..., Any] | None = field(default=None, repr=False)
    target: Json | None = field(default=None, repr=False)

    @property
    def evidence(self) -> str:
        """Return ``proved`` for a violation, since the exact figure is enclosed; otherwise ``numerical``."""
        return "proved" if self.verdict is Verdict.VIOLATED else "numerical"

    @property
    def witness(self) -> Json | None:
        """Return function, parameters and figures, which `dpwitness.replay` compares again; None unless a figure is too low."""
        if self.verdict is not Verdict.VIOLATED or self.function is None:
            return None
        more = {
            "kind": "accountant",
            "mechanism": self.mechanism,
            "returns": self.returns,
            "parameters": dict(self.parameters),
            "at": plain(self.at),
            "figure": strict(self.figure),
            "exact": strict(self.exact),
        }
        return function_witness(self.name, getattr(self.function, "target", self.function), self.seed, more)

    @property
    def advice(self) -> str:
        """Return what to do next, if no figure is too low."""
        if self.verdict is Verdict.ERROR:
            return "fix the problem in the first line, then run again"
        return "no change is needed on this evidence, which is not a proof; more --seconds search further"

    def headline(self) -> str:
        """Return the verdict, both figures and the parameters in one line."""
        if self.verdict is Verdict.ERROR:
            return f"ERROR: {self.notes[0]}"
        where = f"{self.mechanism}: {described(self.at)}"
        if self.returns == "lower-epsilon":
            both = f"above the true epsilon with probability at least {self.exact:.9g}, {self.figure:.9g} is claimed"
            if self.verdict is Verdict.VIOLATED:
                return f"VIOLATED: the lower bound is {both} ({where})"
            return f"NOT REFUTED: at worst, the lower bound is {both} ({where})"
        if self.returns == "admitted":
            both = f"a budget of delta = {self.figure:.9g}, an adaptive adversary reaches delta of at least {self.exact:.9g}"
            if self.verdict is Verdict.VIOLATED:
                return f"VIOLATED: under {both} ({where})"
            return f"NOT REFUTED: at worst, under {both} ({where})"
        both = f"{FIGURES[self.returns].symbol} = {self.figure:.9g} where the exact one is at least {self.exact:.9g}"
        if self.verdict is Verdict.VIOLATED:
            return f"VIOLATED: the accountant returns {both} ({where})"
        return f"NOT REFUTED: no figure too low among {self.compared}; lowest {both} ({where})"

    def to_json(self) -> Json:
        return {
            "kind": "accountant",
            "name": self.name,
            "verdict": self.verdict.value,
            "headline": self.headline(),
            "evidence": self.evidence,
            "claim": f"{FIGURES[self.returns].symbol} of the {self.mechanism} mechanism",
            "mechanism": self.mechanism,
            "returns": self.returns,
            "parameters": dict(self.parameters),
            "at": strict(self.at),
            "figure": strict(self.figure),
            "exact": strict(self.exact),
            "loosest": strict(self.loosest),
            "compared": self.compared,
            "failed": self.failed,
            "seed": self.seed,
            "notes": list(self.notes),
            "target": self.target,
            "environment": environment(),
            "seconds": round(self.seconds, 3),
        }


def described(at: Mapping[str, Any]) -> str:
    """Return the parameters of a point as text."""
    return ", ".join(f"{name} = {_number(value)}" for name, value in at.items()) or "no parameters"


def _number(value: Any) -> str:
    if not isinstance(value, tuple | list):
        return f"{value:.12g}"
    runs = [(first, len(list(group))) for first, group in groupby(value)]
    return f"[{', '.join(_number(first) + (f' ({count} times)' if count > 1 else '') for first, count in runs)}]"


def plain(at: Mapping[str, Any]) -> Json:
    """Return the parameters of a point in JSON types."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in at.items()}


def loose_note(highest: Comparison | None, returns: str) -> tuple[str, ...]:
    """Return a note if a figure is above the exact one by more than 10 %."""
    if highest is None or highest.ratio <= LOOSE:
        return ()
    symbol = FIGURES[returns].symbol
    both = f"{symbol} = {highest.figure:.6g}, the exact one is {highest.exact:.6g}"
    return (f"loose: up to {highest.ratio:.3g} times the exact figure ({both} at {described(highest.at)})",)
