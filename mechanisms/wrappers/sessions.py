"""Interactive mechanisms: a session answers queries that an adversary chooses from earlier answers;
the output is the transcript.

An adversary is any function of the list of answers that returns the next query, or None at the end.
`Adversary` is an adversary given as data, so that a search can optimize it and a witness can store
it.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, List, Optional, Protocol, Sequence, Tuple

import numpy as np

from dpwitness.core.values.validation import (
    InvalidArgument,
    MechanismFailed,
    require_callable,
    require_integer,
    require_numbers,
    require_positive,
    require_type,
    short_repr,
)

from .single_runs import PerRun, made, named

_MOST_ROUNDS = 10**6  # queries of an adversary given as data
_MAX_QUERIES = 10_000  # limit for an adversary that never returns None


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
        Kind of answer (`answer_kind`) after which the stage continues. If empty, the stage
        continues after every answer.

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
        lists = (list, tuple, np.ndarray)
        if (
            not isinstance(self.stages, (list, tuple))
            or not self.stages
            or not all(isinstance(stage, lists) and len(stage) for stage in self.stages)
        ):
            raise InvalidArgument(
                "Adversary: stages must be a non-empty list of non-empty lists of queries, "
                f"got {short_repr(self.stages)}"
            )
        require_integer("rounds", self.rounds, "Adversary", most=_MOST_ROUNDS)
        require_type(
            "usual",
            self.usual,
            str,
            "be the text of a kind of answer, as answer_kind returns it",
            "Adversary",
        )

    def __call__(self, answers: List[Any]) -> Any:
        """Return the next query; None at the end."""
        return next(itertools.islice(self.turns(answers), len(answers), None), None)

    def turns(self, answers: List[Any]) -> Iterator[Any]:
        """Yield the queries one after the other; the caller appends each answer to `answers`."""
        stage = stage_start = 0
        for number in range(self.rounds):
            queries = self.stages[stage]
            yield queries[(number - stage_start) % len(queries)]
            is_last = not self.usual or stage + 1 == len(self.stages)
            if not is_last and answer_kind(answers[number]) != self.usual:
                stage, stage_start = stage + 1, number + 1

    def to_dict(self) -> Dict[str, Any]:
        """Return the adversary as a JSON object, as in the keyword `adversary` of a target, in a
        witness or on a command line.
        """
        arrays = (np.ndarray, np.generic)
        stages = [[q.tolist() if isinstance(q, arrays) else q for q in s] for s in self.stages]
        return {"stages": stages, "rounds": int(self.rounds), "usual": self.usual}


def as_adversary(given: Any, owner: str = "interactive") -> Any:
    """Return the adversary for a list of queries, the JSON object of an `Adversary`, or a function
    of the answers. Raise InvalidArgument for anything else.
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
    if isinstance(answer, np.generic):
        answer = answer.item()
    if isinstance(answer, (list, tuple)):
        return f"({', '.join(map(answer_kind, answer))})"
    if isinstance(answer, BaseException):
        return f"raises {type(answer).__name__}"
    # each integer up to 16 is a separate kind
    if isinstance(answer, float) or (isinstance(answer, int) and abs(answer) > 16):
        return "number"
    if answer is None or isinstance(answer, (int, str)):
        return str(answer)
    return type(answer).__name__


class Session(Protocol):
    """Protocol of a session. An exception that `ask` raises counts as an answer, so that refusals
    are visible.
    """

    def start(self, dataset: Any, rng: np.random.Generator, /) -> Any:
        """Start on a dataset, before any query."""

    def ask(self, query: Any, /) -> Any:
        """Return the answer to a query, of any kind."""


class Interactive(PerRun):
    """A mechanism that runs a session against an adversary; its output is the list of answers."""

    def __init__(
        self,
        session: Callable[[], Any],
        adversary: Any,
        queries: Any,
        rounds: int,
        base: Any,
        declared: Dict[str, Any],
    ) -> None:
        make_session = made("interactive", session)
        self.adversary, self.queries, self.rounds, self.base = adversary, queries, rounds, base

        def once(dataset: Any, rng: Any) -> List[Any]:
            return transcript(make_session(rng), dataset, rng, self.adversary)

        options = {"queries": queries, "rounds": rounds}
        super().__init__(interactive, (session, adversary), options, once, declared)
        self._declared = declared
        if base is not None:
            self._name = base.__name__
        note = "the session receives the audit's generator, and each run creates a new session"
        self.notes = (note, *self.notes[1:])

    def __getattr__(self, name: str) -> Any:
        if name == "__qualname__" and self.base is not None:
            raise AttributeError(name)
        return super().__getattr__(name)

    def __call__(
        self, dataset: Any, size: int, rng: np.random.Generator, adversary: Any = None
    ) -> Any:
        if adversary is not None:
            return self.against(adversary)(dataset, size, rng)
        return super().__call__(dataset, size, rng)

    def __reduce__(self) -> Any:
        if self.base is None:
            return super().__reduce__()
        return Interactive.against, (self.base, self.adversary)

    def rebuilt_from(self) -> Optional[Tuple[Any, Dict[str, Any]]]:
        """Return the mechanism with the default adversary, and the keyword that sets this one's
        adversary; None if this adversary is the default one, or is not given as data.
        """
        if self.base is None or not isinstance(self.adversary, Adversary):
            return None
        return self.base, {"adversary": self.adversary.to_dict()}

    def against(self, adversary: Any) -> Interactive:
        """Return the same session against another adversary.

        The adversary may have any form that `interactive` accepts, or be the JSON object of an
        `Adversary`.
        """
        base = self if self.base is None else self.base
        return Interactive(
            self.wrapped, as_adversary(adversary), self.queries, self.rounds, base, self._declared
        )


def interactive(
    session: Callable[[], Session],
    adversary: Any = None,
    *,
    queries: Any = None,
    rounds: Optional[int] = None,
    **declared: Any,
) -> Interactive:
    """Return a mechanism that runs a session against an adversary; its output is the transcript,
    the list of answers.

    Parameters
    ----------
    session : callable
        Class, or function without arguments, that makes a new session for each run. A session has
        ``start(dataset, rng)`` and ``ask(query)``.
    adversary : list, Adversary or callable, optional
        The queries in order, or ``f(answers)``, which returns the next query, or None at the end,
        after at most 10,000 queries. By default all `queries` in order, until a search finds a
        better adversary (`find_adversary`, ``--search``).
    queries : list or dict, optional
        Allowed queries: a list, or a set of vectors, ``{"ball": radius, "dimension": d}`` or
        ``{"low": [...], "high": [...]}``.
    rounds : int, optional
        Total number of queries in a search. Default: ten, or the length of the adversary's list.
    **declared
        Attributes of the mechanism, as in `one_run`.

    Returns
    -------
    Interactive
        The mechanism ``f(dataset, size, rng)``.

    Raises
    ------
    InvalidArgument
        If neither an adversary nor queries are given, or an argument is invalid.

    Examples
    --------
    >>> class Once:
    ...     def start(self, dataset, rng):
    ...         self.data, self.rng, self.left = dataset, rng, 1
    ...     def ask(self, query):
    ...         self.left -= 1
    ...         return float(self.data[query] + self.rng.laplace()) if self.left >= 0 else None
    >>> [len(run) for run in interactive(Once, [0, 1])([0.0, 1.0], 2, np.random.default_rng(1))]
    [2, 2]
    """
    require_callable("session", session, "interactive")
    if queries is not None:
        require_queries(queries)
    if rounds is not None:
        require_integer("rounds", rounds, "interactive", most=_MOST_ROUNDS)
    if adversary is None and queries is None:
        raise InvalidArgument(
            "interactive: an adversary must be given, or queries from which a search can "
            "make one, got neither"
        )
    if adversary is None:
        query_list = [corner(queries)] if isinstance(queries, dict) else list(queries)
        adversary = Adversary([query_list], rounds or max(10, len(query_list)))
    adversary = as_adversary(adversary)
    total = int(getattr(adversary, "rounds", 10) if rounds is None else rounds)
    return Interactive(session, adversary, queries, total, None, declared)


def transcript(session: Any, dataset: Any, rng: Any, adversary: Any) -> List[Any]:
    """Return the list of answers of a session to an adversary. Raise MechanismFailed if the session
    lacks a method.
    """
    for name in ("start", "ask"):
        if not callable(getattr(session, name, None)):
            raise MechanismFailed(
                "interactive: a session must have start(dataset, rng) and ask(query), "
                f"{type(session).__name__} has no {name}"
            )
    session.start(dataset, rng)
    answers: List[Any] = []
    given = isinstance(adversary, Adversary)
    for query in adversary.turns(answers) if given else _turns_of_function(adversary, answers):
        if query is None:
            break
        try:
            answers.append(session.ask(query))
        except MechanismFailed:
            raise
        except Exception as error:
            answers.append(error.with_traceback(None))
    return answers


def _turns_of_function(adversary: Callable[[List[Any]], Any], answers: List[Any]) -> Iterator[Any]:
    """Yield the queries of a function of the answers, as `Adversary.turns` does."""
    while len(answers) <= _MAX_QUERIES:
        yield adversary(list(answers))
    raise MechanismFailed(
        f"interactive: an adversary must return None at the end, {named(adversary)} has asked "
        f"{_MAX_QUERIES} queries"
    )


def require_queries(queries: Any) -> None:
    """Raise InvalidArgument unless `queries` is a list of queries, a ball or a box."""
    keys = set(queries) if isinstance(queries, dict) else None
    if keys == {"ball", "dimension"}:
        require_positive("queries['ball']", queries["ball"], "interactive")
        require_integer("queries['dimension']", queries["dimension"], "interactive")
        return
    good = isinstance(queries, (list, tuple, np.ndarray)) and len(queries)
    if keys == {"low", "high"}:
        low, high = (
            require_numbers(f"queries[{key!r}]", queries[key], "interactive")
            for key in ("low", "high")
        )
        is_vector = np.ndim(queries["low"]) == 1 and len(low)
        good = is_vector and low.shape == high.shape and (low <= high).all()
    if not good:
        raise InvalidArgument(
            'interactive: queries must be a non-empty list, {"ball": radius, "dimension": d} or '
            f'{{"low": [...], "high": [...]}}, got {short_repr(queries)}'
        )


def corner(queries: Dict[str, Any]) -> List[float]:
    """Return one query of a set of vectors: the end of the first axis of a ball, or the upper
    corner of a box.
    """
    if "ball" in queries:
        return [float(queries["ball"]), *[0.0] * (int(queries["dimension"]) - 1)]
    return [float(value) for value in queries["high"]]
