"""Explanations for lost workers and clusters: one line of text for an executor's error.

Errors of Dask are recognized by name, so Dask need not be installed.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import BrokenExecutor, CancelledError

_CONNECTION_ERRORS = (
    "CommClosedError",
    "ClosedClientError",
    "FutureCancelledError",
    "FuturesCancelledError",
)


def explained(error: BaseException) -> str | None:
    """Return a description of what happened to the workers, or None for an error of another kind.

    Examples
    --------
    >>> from concurrent.futures import BrokenExecutor
    >>> explained(BrokenExecutor("it is gone"))
    'a worker process died while it ran the mechanism (it is gone)'
    """
    if isinstance(error, BrokenExecutor):
        return f"a worker process died while it ran the mechanism ({' '.join(str(error).split())})"
    kind, module = type(error).__name__, type(error).__module__.partition(".")[0]
    if module == "distributed" and kind == "KilledWorker":
        deaths = getattr(error, "allowed_failures", 0) + 1
        return (
            f"{deaths} worker processes died, one after the other, while they ran the same "
            "rounds of the mechanism"
        )
    if isinstance(error, CancelledError | asyncio.CancelledError) or (
        module == "distributed" and kind in _CONNECTION_ERRORS
    ):
        return "the cluster is lost: its scheduler no longer answers, or has cancelled the tasks"
    return None
