"""A relation of the user's own: a function that checks, and one that generates."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from numpy.random import Generator

from dpwitness.mechanisms.domains.base import Domain, Draws, Shape
from dpwitness.mechanisms.terms.pairs import Pair
from dpwitness.mechanisms.terms.relations import OWN
from dpwitness.mechanisms.terms.validation import InvalidArgument, require_callable, require_type, said, shown


@dataclass(frozen=True, slots=True)
class Relation(Domain):
    """Neighbours as the user defines them, for `Pair` and, with `generate`, as a domain.

    Parameters
    ----------
    check : callable
        ``check(d0, d1)``: True for neighbours; False, or a text that says why not. It must be symmetric.
    generate : callable, optional
        ``generate(rng)``: two neighbouring datasets. A pair that `check` refuses ends the audit with an error that names the relation.
    title : str
        What a report and a witness call it; the name of `check` if left out.

    Examples
    --------
    >>> from dpwitness import Pair
    >>> close = Relation(lambda d0, d1: abs(d0 - d1) <= 5 or "more than 5 apart", title="close")
    >>> Pair(10, 14, relation=close).relation
    'own:close'
    """

    check: Callable[[Any, Any], bool | str]
    generate: Callable[[Generator], tuple[Any, Any]] | None = None
    title: str = ""
    relation: str = field(init=False, default="")

    def __post_init__(self) -> None:
        require_callable("check", self.check, "Relation", arguments=2)
        require_callable("generate", self.generate, "Relation", arguments=1, optional=True)
        require_type("title", self.title, str, "be a text", "Relation")
        title = self.title or getattr(self.check, "__name__", "relation")
        object.__setattr__(self, "relation", f"{OWN}:{title}")

    @property
    def name(self) -> str:
        """How it is spelled in results."""
        return self.relation

    def contains(self, dataset: Any) -> bool:
        """Any dataset: the check looks at two."""
        return True

    def drawn(self, rng: Generator, why: str) -> Pair:
        """A generated pair.

        Raises
        ------
        InvalidArgument
            If the functions do not fit one another.
        """
        if self.generate is None:
            raise InvalidArgument(f"Relation: {self.name} must have a function generate to be a domain; give it one, or a pair")
        try:
            found = self.generate(rng)
        except Exception as error:
            raise InvalidArgument(f"Relation: generate of {self.name} raises {said(error)}") from None
        if not isinstance(found, tuple | list) or len(found) != 2:
            raise InvalidArgument(f"Relation: generate of {self.name} must return two datasets, got {shown(found)}")
        try:
            return Pair(found[0], found[1], relation=self, why=why)  # type: ignore[arg-type]
        except InvalidArgument as error:
            told = str(error).removeprefix("Pair: ")
            raise InvalidArgument(f"Relation: the check of {self.name} rejects a pair that its own generate made ({why}): {told}") from None

    def catalogue(self) -> Iterable[Pair | None]:
        """None that is known beforehand."""
        return []

    def draws(self, rng: Generator) -> Draws[Relation]:
        return _Drawn(self, rng)

    def shape(self, rng: Generator, turn: int) -> Shape:
        """Nothing to climb by."""
        return Shape(0, lambda _: None)

    @property
    def unordered(self) -> bool:
        return True


class _Drawn(Draws[Relation]):
    def drawn(self, turn: int, corners: bool) -> Pair | None:
        return self.domain.drawn(self.rng, f"drawn {turn}")
