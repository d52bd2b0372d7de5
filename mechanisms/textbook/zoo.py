"""The zoos: named mechanisms, correct and broken, on which the auditors are measured.

The true privacy of the textbook mechanisms is known. The papers' algorithms, printed and repaired,
come with the pairs on which their privacy is worst. Their parameters are those of the ledger's
witnesses, or small ones of the same kind if those are too expensive to run often.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from dpwitness.core import Pair, PureDP
from dpwitness.core.values.json_codec import modules_of


@dataclass(frozen=True, slots=True)
class PureMechanism:
    """Base of the mechanisms that claim epsilon-DP."""

    epsilon: float

    @property
    def claim(self) -> PureDP:
        return PureDP(self.epsilon)


@functools.cache
def _specimens_of(package: str) -> dict[str, Any]:
    """Return the specimens of all modules of a package by name, from the function `specimens` of
    each.
    """
    parts = [module.specimens() for module in modules_of(package) if hasattr(module, "specimens")]
    return {name: found for part in parts for name, found in dict(part).items()}


def zoo() -> dict[str, Any]:
    """Return the textbook mechanisms by name, each with a density, a claim and a known `truth`."""
    return _specimens_of("dpwitness.mechanisms.textbook").copy()


@dataclass(frozen=True, slots=True)
class PaperSpecimen:
    """An algorithm of a paper at fixed parameters, with its worst pairs."""

    mechanism: Any  # the algorithm
    pairs: tuple[Pair, ...]  # pairs on which the privacy of the algorithm is worst
    # whether an audit of the suite's size reaches the verdict that the truth implies. False if a
    # violation is so small, so rare or so far from these parameters that black-box runs do not
    # detect it.
    settled: bool = True
    # number of runs, if the suite's number is too many for the cost of a run
    trials: int | None = None


def with_worst_pair(
    mechanism: Any, *, settled: bool = True, trials: int | None = None
) -> PaperSpecimen:
    """Return the specimen of a mechanism with its own worst pair."""
    return PaperSpecimen(mechanism, (mechanism.worst_pair(),), settled, trials)


def paper_zoo() -> dict[str, PaperSpecimen]:
    """Return every specimen by name.

    Examples
    --------
    >>> [name for name in paper_zoo() if name.startswith("ftrl")]
    ['ftrl-printed', 'ftrl-with-log-p']
    """
    return _specimens_of("dpwitness.mechanisms.papers").copy()
