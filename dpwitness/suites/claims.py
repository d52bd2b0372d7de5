"""Checks of all claims in the ledger, sequentially or in processes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from dpwitness.core.values.json_reader import Json


def run_all(*, seconds: float, quick: bool, seed: int, workers: int = 1) -> Iterator[Json]:
    """Check every claim of the ledger in order, and yield each finding as JSON with its witness
    under ``"witness"``.

    Parameters
    ----------
    seconds : float
        Time limit of one check. A check that reaches the limit is INCONCLUSIVE.
    quick : bool
        Whether to use fewer runs and cells.
    seed : int
        Seed of audits and searches.
    workers : int
        Number of processes.

    Yields
    ------
    dict
        Finding of one claim.

    Raises
    ------
    InvalidArgument
        If the time limit or the seed is invalid.
    """
    from dpwitness.executors.pools import pool
    from dpwitness.proofs_checks import declarations

    run = partial(_check_claim, seconds=seconds, quick=quick, seed=seed)
    if workers == 1:
        yield from map(run, declarations())
        return
    with pool(workers) as executor:
        yield from executor.map(run, declarations())


def _check_claim(id: str, *, seconds: float, quick: bool, seed: int) -> Json:
    from dpwitness.proofs_checks import check

    found = check(id, seconds=seconds, quick=quick, seed=seed)
    return found.to_json() | {"witness": found.witness}
