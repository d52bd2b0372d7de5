"""Verdicts of audits, strict JSON of their values, fresh seeds, and software versions."""

from __future__ import annotations

import enum
import math
import secrets
from collections.abc import Mapping
from functools import cache
from typing import Any

SCHEMA = 1  # of results, witnesses and reports


class Verdict(enum.Enum):
    """Outcome of an audit.

    VIOLATED: the claim is refuted, with the stated error probability or by a proof. SUSPECT: a
    claim that a scan has guessed is refuted; the claim is violated if the guess is right.
    NOT_REFUTED: no violation was found, which proves nothing. CERTIFIED: the claim holds, by a
    proof or with a stated error. SUPPORTED: the claim holds by numerics or under an assumption
    only. INCONCLUSIVE: the audit ended without an answer. ERROR: the audit or the mechanism failed.
    """

    VIOLATED = "VIOLATED"
    SUSPECT = "SUSPECT"
    NOT_REFUTED = "NOT_REFUTED"
    CERTIFIED = "CERTIFIED"
    SUPPORTED = "SUPPORTED"
    INCONCLUSIVE = "INCONCLUSIVE"
    ERROR = "ERROR"

    @property
    def decided(self) -> bool:
        """Whether the audit answers the question about the claim."""
        return self not in (Verdict.SUSPECT, Verdict.INCONCLUSIVE, Verdict.ERROR)

    def __bool__(self) -> bool:
        raise TypeError(
            f"a verdict is not a truth value: compare it, as in `verdict is Verdict.{self.name}`"
        )


def strict(value: Any) -> Any:
    """Return a value in JSON types only.

    Infinities and NaN become words, NumPy scalars and arrays become numbers and lists, and tuples
    become lists.
    """
    if isinstance(value, Mapping):
        return {str(k): strict(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [strict(v) for v in value]
    if hasattr(value, "tolist"):
        return strict(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return "inf" if value > 0 else "-inf" if value < 0 else "nan"
    return value


def fresh_seed() -> int:
    """Return a seed from the operating system's entropy, which nobody can know or choose in
    advance.
    """
    # every JSON reader represents integers of this size exactly
    return secrets.randbits(48)


@cache
def environment() -> dict[str, str]:
    """Return the versions of Python and of the main packages."""
    import platform  # imported late, as the top package loads this module at startup
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version(), "machine": platform.machine()}
    for package in ("dpwitness", "numpy", "scipy", "numba"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found
