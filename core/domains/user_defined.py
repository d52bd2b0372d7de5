"""A neighboring relation defined by the user: a function that checks pairs, and optionally one that
generates them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from numpy.random import Generator

from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.datasets.relations import OWN
from dpwitness.core.domains.base import Domain
from dpwitness.core.values.validation import (
    InvalidArgument,
    error_text,
    require_callable,
    require_type,
    short_repr,
)


@dataclass(frozen=True, slots=True)
class Relation(Domain):
    """A user-defined neighboring relation for `Pair`; with `generate` also a domain.

    Parameters
    ----------
    check : callable
        ``check(d0, d1)`` returns True for neighbors, otherwise False or a text with the reason. It
        must be symmetric.
    generate : callable, optional
        ``generate(rng)`` returns two neighboring datasets. If `check` refuses such a pair, the
        audit raises an error that names the relation.
    title : str
        Name in reports and witnesses. Default: the name of `check`.

    Raises
    ------
    InvalidArgument
        If a function cannot be called.

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
    declarable = False  # its fields are functions
    unordered = True

    def __post_init__(self) -> None:
        require_callable("check", self.check, "Relation", arguments=2)
        require_callable("generate", self.generate, "Relation", arguments=1, optional=True)
        require_type("title", self.title, str, "be a text", "Relation")
        title = self.title or getattr(self.check, "__name__", "relation")
        object.__setattr__(self, "relation", f"{OWN}:{title}")

    @property
    def name(self) -> str:
        """Return the name of the relation in results."""
        return self.relation

    def contains(self, dataset: Any) -> bool:
        """Return True: the check of a pair is the only restriction on datasets."""
        return True

    def random_pair(self, rng: Generator, turn: int, corners: bool) -> Pair:
        """Return a generated pair.

        Raises
        ------
        InvalidArgument
            If `generate` is missing, raises, or returns a pair that `check` refuses.
        """
        why = f"drawn {turn}"
        if self.generate is None:
            raise InvalidArgument(
                f"Relation: {self.name} has no generate function, so it is not a domain; "
                "pass generate=..., or a pair"
            )
        try:
            generated = self.generate(rng)
        except Exception as error:
            raise InvalidArgument(
                f"Relation: generate of {self.name} raises {error_text(error)}"
            ) from None
        if not isinstance(generated, tuple | list) or len(generated) != 2:
            raise InvalidArgument(
                f"Relation: generate of {self.name} must return two datasets, got "
                f"{short_repr(generated)}"
            )
        try:
            return Pair(generated[0], generated[1], relation=self, why=why)  # type: ignore[arg-type]
        except InvalidArgument as error:
            reason = str(error).removeprefix("Pair: ")
            raise InvalidArgument(
                f"Relation: the check of {self.name} rejects a pair that its own generate "
                f"made ({why}): {reason}"
            ) from None
