"""Adversaries of interactive mechanisms: they choose each query from the answers so far.

An adversary is any function of the list of answers that returns the next query, or None at the end.
`Adversary` is an adversary given as data, so that a search can optimize it and a witness can store
it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Generator, List, Sequence, Tuple

import numpy as np

from .errors import InvalidArgument, short_repr

_MAX_SMALL_INTEGER = 16  # each integer up to this absolute value is a separate kind


@dataclass(frozen=True)
class Adversary:
    """An adversary that repeats the queries of a stage until an answer is unusual, then continues
    with the next stage.

    Parameters
    ----------
    stages : list of lists of queries
        The last stage continues to the end. A single stage is a fixed list of queries.
    rounds : int
        Total number of queries.
    usual : str
        Kind of answer (`answer_kind`) that keeps the stage. If empty, every answer does.

    Raises
    ------
    InvalidArgument
        If a stage is empty, or an argument has another type or range.

    Examples
    --------
    >>> ask = Adversary([["a", "b"], ["c"]], rounds=4, usual="False")
    >>> [ask([]), ask([False]), ask([False, False]), ask([False, True]), ask([0] * 4)]
    ['a', 'b', 'a', 'c', None]
    """

    stages: Sequence[Sequence[Any]]
    rounds: int
    usual: str = ""

    def __post_init__(self) -> None:
        good = isinstance(self.stages, (list, tuple)) and all(
            isinstance(s, (list, tuple, np.ndarray)) and len(s) for s in self.stages
        )
        if not good or not self.stages:
            raise InvalidArgument(
                "Adversary: stages must be a non-empty list of non-empty lists of queries, "
                f"got {short_repr(self.stages)}"
            )
        if (
            isinstance(self.rounds, bool)
            or not isinstance(self.rounds, (int, np.integer))
            or not 1 <= self.rounds <= 10**6
        ):
            raise InvalidArgument(
                "Adversary: rounds must be a whole number from 1 to 10^6, got "
                f"{short_repr(self.rounds)}"
            )
        if not isinstance(self.usual, str):
            raise InvalidArgument(
                f"Adversary: usual must be a kind of answer as text, got {short_repr(self.usual)}"
            )

    def __call__(self, answers: List[Any]) -> Any:
        """Return the next query; None at the end."""
        generator = self.turns()
        query = next(generator)
        for answer in answers:
            try:
                query = generator.send(answer)
            except StopIteration:
                return None
        return query

    def turns(self) -> Generator[Any, Any, None]:
        """Yield the queries one after the other; `send` receives the answer to each."""
        stage = stage_start = 0
        for number in range(self.rounds):
            stage_queries = self.stages[stage]
            answer = yield stage_queries[(number - stage_start) % len(stage_queries)]
            if self.usual and stage + 1 < len(self.stages) and answer_kind(answer) != self.usual:
                stage, stage_start = stage + 1, number + 1

    def to_dict(self) -> Dict[str, Any]:
        """Return the adversary as a JSON object, as in the keyword `adversary` of a target, in a
        witness or on a command line.
        """
        stages = [
            [
                query.tolist() if isinstance(query, (np.ndarray, np.generic)) else query
                for query in stage
            ]
            for stage in self.stages
        ]
        return {"stages": stages, "rounds": int(self.rounds), "usual": self.usual}


def as_adversary(given: Any, owner: str = "interactive") -> Any:
    """Return the adversary for a list of queries, the JSON object of an `Adversary`, or a function
    of the answers.
    """
    if isinstance(given, dict):
        if not {"stages", "rounds"} <= set(given) <= {"stages", "rounds", "usual"}:
            raise InvalidArgument(
                f"{owner}: adversary must have the keys stages, rounds and optionally usual, "
                f"got {short_repr(given)}"
            )
        return Adversary(**given)
    if isinstance(given, (list, tuple, np.ndarray)):
        return Adversary([list(given)], len(given))
    if not callable(given):
        raise InvalidArgument(
            f"{owner}: adversary must be a list of queries or a function of the answers, got "
            f"{short_repr(given)}"
        )
    return given


def answer_kind(answer: Any) -> str:
    """Return the kind of an answer: texts, booleans, small integers and None are each a separate
    kind, all other numbers are one kind.

    Examples
    --------
    >>> [answer_kind(answer) for answer in (True, None, "stop", 0.3, (False, 2.5), ValueError("x"))]
    ['True', 'None', 'stop', 'number', '(False, number)', 'raises ValueError']
    """
    if isinstance(answer, (bool, np.bool_)):
        return str(bool(answer))
    if isinstance(answer, (int, np.integer)):
        return str(int(answer)) if abs(int(answer)) <= _MAX_SMALL_INTEGER else "number"
    if isinstance(answer, (float, np.floating)):
        return "number"
    if isinstance(answer, BaseException):
        return f"raises {type(answer).__name__}"
    if isinstance(answer, (list, tuple)):
        parts: Tuple[str, ...] = tuple(answer_kind(part) for part in answer)
        return f"({', '.join(parts)})"
    return (
        answer if isinstance(answer, str) else "None" if answer is None else type(answer).__name__
    )
