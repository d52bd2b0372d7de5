"""Who asks: an adversary chooses each query from the answers so far.

Any function of the list of answers is one, and gives None once it has asked enough. `Adversary` is one that is data, so that a search can
look for it and a witness can hold it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Generator, List, Sequence, Tuple

import numpy as np

from .errors import InvalidArgument, shown

_FEW = 16  # whole numbers up to here are kinds of their own


@dataclass(frozen=True)
class Adversary:
    """Asks the queries of a stage in turn, over and over, until an answer is unusual; then goes on with the next stage.

    Parameters
    ----------
    stages : list of lists of queries
        The last goes on to the end. One stage alone is a fixed list.
    rounds : int
        Queries in all.
    usual : str
        The kind of answer (`kind_of`) that leaves the stage as it is; any, if it is empty.

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
        good = isinstance(self.stages, (list, tuple)) and all(isinstance(s, (list, tuple, np.ndarray)) and len(s) for s in self.stages)
        if not good or not self.stages:
            raise InvalidArgument(f"Adversary: stages must be a non-empty list of non-empty lists of queries, got {shown(self.stages)}")
        if isinstance(self.rounds, bool) or not isinstance(self.rounds, (int, np.integer)) or not 1 <= self.rounds <= 10**6:
            raise InvalidArgument(f"Adversary: rounds must be a whole number from 1 to 10^6, got {shown(self.rounds)}")
        if not isinstance(self.usual, str):
            raise InvalidArgument(f"Adversary: usual must be the kind of an answer, a text, got {shown(self.usual)}")

    def __call__(self, answers: List[Any]) -> Any:
        """The next query; None at the end."""
        asking = self.turns()
        query = next(asking)
        for answer in answers:
            try:
                query = asking.send(answer)
            except StopIteration:
                return None
        return query

    def turns(self) -> Generator[Any, Any, None]:
        """The queries, one after the other, each sent the answer to the one before."""
        stage = begun = 0
        for number in range(self.rounds):
            asked = self.stages[stage]
            answer = yield asked[(number - begun) % len(asked)]
            if self.usual and stage + 1 < len(self.stages) and kind_of(answer) != self.usual:
                stage, begun = stage + 1, number + 1

    def told(self) -> Dict[str, Any]:
        """As JSON has it: the keyword `adversary` of a target, in a witness or on a command line."""
        stages = [[query.tolist() if isinstance(query, (np.ndarray, np.generic)) else query for query in stage] for stage in self.stages]
        return {"stages": stages, "rounds": int(self.rounds), "usual": self.usual}


def adversary_of(given: Any, owner: str = "interactive") -> Any:
    """An adversary from what may stand for one: a list of queries, what `Adversary.told` says, a function of the answers."""
    if isinstance(given, dict):
        if not {"stages", "rounds"} <= set(given) <= {"stages", "rounds", "usual"}:
            raise InvalidArgument(f"{owner}: adversary must have stages, rounds and maybe usual, got {shown(given)}")
        return Adversary(**given)
    if isinstance(given, (list, tuple, np.ndarray)):
        return Adversary([list(given)], len(given))
    if not callable(given):
        raise InvalidArgument(f"{owner}: adversary must be a list of queries or a function of the answers, got {shown(given)}")
    return given


def kind_of(answer: Any) -> str:
    """What kind of answer it is: a text, a truth value, a small whole number and nothing are kinds of their own, other numbers are one.

    Examples
    --------
    >>> [kind_of(answer) for answer in (True, None, "stop", 0.3, (False, 2.5), ValueError("x"))]
    ['True', 'None', 'stop', 'number', '(False, number)', 'raises ValueError']
    """
    if isinstance(answer, (bool, np.bool_)):
        return str(bool(answer))
    if isinstance(answer, (int, np.integer)):
        return str(int(answer)) if abs(int(answer)) <= _FEW else "number"
    if isinstance(answer, (float, np.floating)):
        return "number"
    if isinstance(answer, BaseException):
        return f"raises {type(answer).__name__}"
    if isinstance(answer, (list, tuple)):
        parts: Tuple[str, ...] = tuple(kind_of(part) for part in answer)
        return f"({', '.join(parts)})"
    return answer if isinstance(answer, str) else "None" if answer is None else type(answer).__name__
