"""Interactive mechanisms: a session answers queries that an adversary chooses from earlier answers;
the output is the transcript.

An adversary is any function of the list of answers that returns the next query, or None at the end.
`Adversary` is an adversary given as data, so that a search can optimize it and a witness can store
it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, Generator, List, Optional, Protocol, Sequence, Tuple

import numpy as np

from dpwitness.core.values.validation import (
    InvalidArgument,
    MechanismFailed,
    require_callable,
    require_integer,
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
        require_integer("rounds", self.rounds, "Adversary", most=_MOST_ROUNDS)
        require_type("usual", self.usual, str, "be a kind of answer as text", "Adversary")

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
        # each integer up to this absolute value is a separate kind
        return str(int(answer)) if abs(int(answer)) <= 16 else "number"
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
        self._declared = declared

        def once(dataset: Any, rng: Any) -> List[Any]:
            return transcript(make_session(rng), dataset, rng, self.adversary)

        rebuilt = (interactive, (session, adversary), {"queries": queries, "rounds": rounds})
        super().__init__(
            named(session) if base is None else base.__name__,
            once,
            rebuilt,
            ("the session receives the audit's generator, and each run creates a new session",),
            60.0,
            declared,
        )

    def __getattr__(self, name: str) -> Any:
        if name == "__qualname__" and self.base is not None:
            raise AttributeError(name)
        return PerRun.__getattr__(self, name)

    def __call__(
        self, dataset: Any, size: int, rng: np.random.Generator, adversary: Any = None
    ) -> Any:
        return PerRun.__call__(
            self if adversary is None else self.against(adversary), dataset, size, rng
        )

    def __reduce__(self) -> Any:
        return (
            PerRun.__reduce__(self)
            if self.base is None
            else (Interactive.against, (self.base, self.adversary))
        )

    def against(self, adversary: Any) -> Interactive:
        """Return the same session against another adversary.

        The adversary may have any form that `interactive` accepts, or be the JSON object of an
        `Adversary`.
        """
        base = self if self.base is None else self.base
        session = self._rebuilt[1][0]
        return Interactive(
            session, as_adversary(adversary), self.queries, self.rounds, base, self._declared
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
    if adversary is None and queries is None:
        raise InvalidArgument(
            "interactive: an adversary must be given, or queries from which a search can "
            "make one, got neither"
        )
    if rounds is not None:
        require_integer("rounds", rounds, "interactive", most=_MOST_ROUNDS)
    if adversary is None:
        query_list = list(queries) if not isinstance(queries, dict) else [corner(queries)]
        adversary = Adversary([query_list], rounds or max(10, len(query_list)))
    adversary = as_adversary(adversary)
    return Interactive(
        session,
        adversary,
        queries,
        int(rounds if rounds is not None else getattr(adversary, "rounds", 10)),
        None,
        declared,
    )


def transcript(
    session: Any, dataset: Any, rng: Any, adversary: Callable[[List[Any]], Any]
) -> List[Any]:
    """Return the list of answers of a session to an adversary."""
    for name in ("start", "ask"):
        if not callable(getattr(session, name, None)):
            raise MechanismFailed(
                "interactive: a session must have start(dataset, rng) and ask(query), "
                f"{type(session).__name__} has no {name}"
            )
    session.start(dataset, rng)
    answers: List[Any] = []
    generator = (
        adversary.turns() if isinstance(adversary, Adversary) else _function_turns(adversary)
    )
    query = next(generator, None)
    while query is not None:
        try:
            answers.append(session.ask(query))
        except MechanismFailed:
            raise
        except Exception as error:
            answers.append(error.with_traceback(None))
        try:
            query = generator.send(answers[-1])
        except StopIteration:
            break
    return answers


def _function_turns(adversary: Callable[[List[Any]], Any]) -> Generator[Any, Any, None]:
    """Yield the queries of a function of the answers, with the protocol of `Adversary.turns`."""
    answers: List[Any] = []
    while (query := adversary(list(answers))) is not None:
        if len(answers) == _MAX_QUERIES:
            raise MechanismFailed(
                f"interactive: an adversary must return None at the end, {named(adversary)} "
                f"has asked {_MAX_QUERIES} queries"
            )
        answers.append((yield query))


def require_queries(queries: Any) -> None:
    """Raise InvalidArgument unless `queries` is a list of queries, a ball or a box."""
    if isinstance(queries, dict):
        numbers = [
            np.asarray(value, dtype=float)
            for value in queries.values()
            if isinstance(value, (int, float, list, tuple, np.ndarray))
        ]
        ball = (
            set(queries) == {"ball", "dimension"}
            and len(numbers) == 2
            and numbers[0] > 0
            and 1 <= numbers[1] == int(numbers[1])
        )
        box = (
            set(queries) == {"low", "high"}
            and len(numbers) == 2
            and numbers[0].shape == numbers[1].shape
            and numbers[0].ndim == 1
        )
        if (ball or (box and len(numbers[0]) and np.all(numbers[0] <= numbers[1]))) and all(
            np.all(np.isfinite(n)) for n in numbers
        ):
            return
    elif isinstance(queries, (list, tuple, np.ndarray)) and len(queries):
        return
    raise InvalidArgument(
        'interactive: queries must be a non-empty list, {"ball": radius, "dimension": d} or '
        '{"low": [...], "high": [...]}, '
        f"got {short_repr(queries)}"
    )


def corner(queries: Dict[str, Any]) -> List[float]:
    """Return one query of a set of vectors: the end of the first axis of a ball, or the upper
    corner of a box.
    """
    if "ball" in queries:
        return [float(queries["ball"]), *[0.0] * (int(queries["dimension"]) - 1)]
    return [float(value) for value in queries["high"]]
