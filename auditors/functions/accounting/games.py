"""Audits of tools whose figure is the claim of a game: lower bounds from canary scores, and privacy
filters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpwitness.auditors.functions.accounting import coverage, filters
from dpwitness.auditors.functions.accounting.mechanisms import Point
from dpwitness.auditors.functions.accounting.search import Found

Call = Callable[[Sequence[Mapping[str, Any]]], Sequence[Any]]
Names = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Game:
    """Game that tests a tool: the returned figure, the arguments, the search, one comparison, and
    the check of recorded parameters.

    In its comparisons, the figure is the probability that the tool claims, and the exact figure is
    the true one.
    """

    returns: str
    arguments: tuple[str, ...]
    needed: tuple[str, ...]
    search: Callable[[Call, Names, float, int, int], Found]
    compared: Callable[[Found, Call, Names, Point], Found]
    require_point: Callable[[Mapping[str, Any]], Point]


GAMES: Mapping[str, Game] = {
    coverage.MECHANISM: Game(
        coverage.RETURNS,
        coverage.ARGUMENTS,
        coverage.ARGUMENTS[:2],
        coverage.search_coverage,
        coverage.compared_error,
        coverage.require_point,
    ),
    filters.MECHANISM: Game(
        filters.RETURNS,
        filters.ARGUMENTS,
        filters.ARGUMENTS,
        filters.search_filter,
        filters.compared_filter,
        filters.require_point,
    ),
}
