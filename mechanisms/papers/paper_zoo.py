"""Zoo of the papers' algorithms, printed and repaired, audited by the suite `papers`.

Each algorithm comes with the pairs on which its privacy is worst. The parameters are those of the
ledger's witnesses, or small ones of the same kind if those are too expensive to run often.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dpwitness.core import Pair
from dpwitness.mechanisms.textbook.zoo import specimens_of


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
    return specimens_of("dpwitness.mechanisms.papers")
