"""A claim as the ledger holds it: what the paper states, and the function that settles it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dpwitness.mechanisms.terms.reading import Json
from dpwitness.proofs_checks.engine.enclosures import Box


@dataclass(frozen=True, slots=True)
class Declaration:
    """A claim as the paper states it, and the function that settles it.

    Attributes
    ----------
    id : str
        As in the ledger of claims; a repair or a variant carries the id of what it belongs to, and a suffix.
    source, statement, formula : str
        Where it is printed; what it says, in words; and as a formula.
    domain : Box
        The parameters for which it is claimed.
    kind : {"certificate", "counterexample", "experiment"}
        What the check can show: a proof; a case that refutes it; or measurements. How far it reaches is the finding's `scope`.
    function : callable
        For a certificate over a box, one ball per parameter -> Enclosure of the relative excess, value / promise - 1, in the worst case;
        the claim holds iff it is <= 0. Otherwise ``function(effort, **parameters) -> Evidence``; its defaults are the points checked.
    boxed : bool
        Whether `function` is such an excess.
    repairs : str or None
        Id of the claim that this one repairs.
    depends : tuple of str
        Ids of the claims that its proof uses.
    reach : float or None
        The slack, stated: the largest value over the promise that the check proves, over the domain or at its point; 1 where none is left.
        A check that comes to another number does not prove this entry.
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
        """The reduction to finitely many parameters, or what is run: as written beside the check."""
        return inspect.cleandoc(self.function.__doc__ or "")

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
