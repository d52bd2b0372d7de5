"""Parser of executor specifications, without heavy imports."""

from __future__ import annotations

import re

from dpwitness.core.values.validation import InvalidArgument, short_repr

MOST = 1024  # maximum number of workers that this process starts
FORMS = "threads:N, processes:N, dask-local:N or dask://HOST:PORT"

_KINDS_WITH_COUNT = ("threads", "processes", "dask-local")
_ADDRESS = re.compile(
    r"(?:(?:tcp|tls|ws|wss|ucx)://)?(?:\[[0-9a-fA-F:.]+\]|[\w.-]+):(\d{1,5})", re.ASCII
)


def parse(text: object) -> tuple[str, int, str]:
    """Parse an executor specification.

    Returns
    -------
    str, int, str
        Kind, number of workers to start (0 for none), and address of the scheduler of a cluster.

    Raises
    ------
    InvalidArgument
        If `text` has none of the forms in `FORMS`.

    Examples
    --------
    >>> parse("dask-local:2")
    ('dask-local', 2, '')
    >>> parse("dask://10.0.0.1:8786")
    ('dask', 0, '10.0.0.1:8786')
    """
    if isinstance(text, str):
        kind, _, count = text.partition(":")
        if (
            kind in _KINDS_WITH_COUNT
            and re.fullmatch(r"[1-9]\d{0,3}", count, re.ASCII)
            and int(count) <= MOST
        ):
            return kind, int(count), ""
        address = text.removeprefix("dask://")
        if address != text and (found := _ADDRESS.fullmatch(address)) and 0 < int(found[1]) < 2**16:
            return "dask", 0, address
    raise InvalidArgument(
        f"executor must be {FORMS}, with N between 1 and {MOST}, got {short_repr(text)}"
    )
