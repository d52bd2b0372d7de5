"""Result of an audit of an accountant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, ClassVar

from dpwitness.auditors.functions.accounting.mechanisms import FIGURES, LOOSE
from dpwitness.auditors.functions.accounting.search import Comparison
from dpwitness.auditors.witnesses.function_result import FunctionResult
from dpwitness.auditors.witnesses.verdicts import Verdict, strict
from dpwitness.core.values.json_reader import Json


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class AccountantResult(FunctionResult):
    """Result of an audit of an accountant.

    Attributes
    ----------
    verdict : Verdict
        VIOLATED if a figure is certainly below the exact one, NOT_REFUTED if none was found, ERROR
        if no figure could be compared.
    mechanism, returns, parameters, seed
        Arguments of `dpwitness.accounting.audit_accountant`.
    at : dict
        Parameters of the mechanism and of the figure at the violation; without a violation, where
        the figure is lowest.
    figure, exact : float
        Figure of the accountant and the exact figure, at `at`. The exact figure is a rigorous lower
        bound.
    loosest : dict or None
        Parameters, figure and exact figure where the ratio of the two is largest.
    compared, failed : int
        Number of figures that were compared, and of calls that raised or returned no number.
    name, notes, seconds, function
        As in other results.
    """

    kind: ClassVar[str] = "accountant"

    mechanism: str
    returns: str
    parameters: Mapping[str, str]
    at: Mapping[str, Any]
    figure: float
    exact: float
    loosest: Mapping[str, Any] | None
    compared: int
    failed: int

    def _witness_fields(self) -> Json | None:
        if self.verdict is not Verdict.VIOLATED:
            return None
        figures = {"figure": strict(self.figure), "exact": strict(self.exact)}
        return {**self._question(), "at": plain(self.at), **figures}

    def _question(self) -> Json:
        return {
            "mechanism": self.mechanism,
            "returns": self.returns,
            "parameters": dict(self.parameters),
        }

    def _statement(self) -> str:
        return f"{FIGURES[self.returns].symbol} of the {self.mechanism} mechanism"

    def _summary(self) -> str:
        """Return both figures and the parameters in one line."""
        where, violated = (
            f"{self.mechanism}: {described(self.at)}",
            self.verdict is Verdict.VIOLATED,
        )
        at_worst = "" if violated else "at worst, "
        if self.returns == "lower-epsilon":
            both = (
                f"above the true epsilon with probability at least {self.exact:.9g}, "
                f"{self.figure:.9g} is claimed"
            )
            return f"{at_worst}the lower bound is {both} ({where})"
        if self.returns == "admitted":
            both = (
                f"a budget of delta = {self.figure:.9g}, an adaptive adversary reaches delta of "
                f"at least {self.exact:.9g}"
            )
            return f"{at_worst}under {both} ({where})"
        both = (
            f"{FIGURES[self.returns].symbol} = {self.figure:.9g} where the exact one is at least "
            f"{self.exact:.9g}"
        )
        found = (
            "the accountant returns"
            if violated
            else f"no figure too low among {self.compared}; lowest"
        )
        return f"{found} {both} ({where})"

    def _fields(self) -> Json:
        return {
            **self._question(),
            "at": strict(self.at),
            "figure": strict(self.figure),
            "exact": strict(self.exact),
            "loosest": strict(self.loosest),
            "compared": self.compared,
            "failed": self.failed,
        }


def described(at: Mapping[str, Any]) -> str:
    """Return the parameters of a point as text."""
    return ", ".join(f"{name} = {_number(value)}" for name, value in at.items()) or "no parameters"


def _number(value: Any) -> str:
    if not isinstance(value, tuple | list):
        return f"{value:.12g}"
    runs = [(first, len(list(group))) for first, group in groupby(value)]
    return f"[{', '.join(_number(first) + (f' ({count} times)' if count > 1 else '') for first, count in runs)}]"  # noqa: E501


def plain(at: Mapping[str, Any]) -> Json:
    """Return the parameters of a point in JSON types."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in at.items()}


def loose_note(highest: Comparison | None, returns: str) -> tuple[str, ...]:
    """Return a note if a figure is above the exact one by more than 10 %."""
    if highest is None or highest.ratio <= LOOSE:
        return ()
    symbol = FIGURES[returns].symbol
    both = f"{symbol} = {highest.figure:.6g}, the exact one is {highest.exact:.6g}"
    return (
        f"loose: up to {highest.ratio:.3g} times the exact figure ({both} at "
        f"{described(highest.at)})",
    )
