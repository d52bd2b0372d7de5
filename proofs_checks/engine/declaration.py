"""Ledger entry of a claim: the paper's statement, and the function that checks the statement."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dpwitness.core.values.json_reader import Json
from dpwitness.proofs_checks.engine.enclosures import Box


@dataclass(frozen=True, slots=True)
class Declaration:
    """Ledger entry: a claim of a paper, and the function that checks the claim.

    Attributes
    ----------
    id : str
        Id in the ledger. A repair or a variant has the id of the original claim and a suffix.
    source, statement, formula : str
        Place in the paper, the claim in words, and the claim as a formula.
    domain : Box
        Parameter ranges for which the paper makes the claim.
    kind : {"certificate", "counterexample", "experiment"}
        Result that the check can give: a proof, a case that refutes the claim, or measurements.
        The finding's `scope` says for which parameters the result is valid.
    function : callable
        For a certificate over a box, ``function(**balls) -> Enclosure`` with one ball per
        parameter. The enclosure contains the relative excess, value / promise - 1, of the worst
        case; the claim holds if and only if the excess is <= 0. Otherwise ``function(effort,
        **parameters) -> Evidence``; the default parameters are the point that is checked.
    boxed : bool
        Whether `function` encloses the relative excess over a box.
    repairs : str or None
        Id of the claim that this claim repairs.
    depends : tuple of str
        Ids of the claims that the proof uses.
    reach : float or None
        Stated ratio value / promise that the check proves, largest over the domain or at the
        check's point; 1 if the bound is tight. A check that computes another ratio does not prove
        this entry.
    """

    id: str
    source: str
    statement: str
    formula: str
    domain: Box
    kind: str
    function: Callable[..., Any]
    boxed: bool = False
    repairs: str | None = None
    depends: tuple[str, ...] = ()
    reach: float | None = None

    @property
    def proof(self) -> str:
        """Return the docstring of the check: the proof's reduction to finitely many parameters, or
        the experiment that is run. Each paragraph is one line.
        """
        paragraphs = inspect.cleandoc(self.function.__doc__ or "").split("\n\n")
        return "\n\n".join(" ".join(each.split()) for each in paragraphs)

    def to_json(self) -> Json:
        return {
            "id": self.id,
            "source": self.source,
            "statement": self.statement,
            "formula": self.formula,
            "kind": self.kind,
            "domain": {name: list(bounds) for name, bounds in self.domain.items()},
            "repairs": self.repairs,
            "depends": list(self.depends),
            "reach": self.reach,
            "proof": self.proof,
        }
