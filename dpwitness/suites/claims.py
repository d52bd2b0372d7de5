"""Every claim of the ledger, checked one after the other or in processes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from dpwitness.mechanisms.terms.reading import Json


def run_all(*, seconds: float, quick: bool, seed: int, workers: int = 1) -> Iterator[Json]:
    """Check every claim of the ledger, in order; yields each finding's JSON, and its witness under ``"witness"``."""
    from dpwitness.executors.pools import pool
    from dpwitness.proofs_checks import declarations

    run = partial(_checked, seconds=seconds, quick=quick, seed=seed)
    if workers == 1:
        yield from map(run, declarations())
        return
    with pool(workers) as executor:
        yield from executor.map(run, declarations())


def _checked(id: str, *, seconds: float, quick: bool, seed: int) -> Json:
    from dpwitness.proofs_checks import check

    found = check(id, seconds=seconds, quick=quick, seed=seed)
    return found.to_json() | {"witness": found.witness}
