"""What a worker says of a target before it runs it: its promise, its domain, how it is called, and what it has started.

Stands alone (standard library, Python 3.8 or later), for `worker` reads it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import os
from typing import Any, Dict  # noqa: UP035

_DOMAINS = "dpwitness.mechanisms.domains"


class Unfit(Exception):
    """What is wrong with a target, in one sentence."""


def built(cls: type, name: str, kwargs: dict[str, Any]) -> Any:
    """A class with its arguments."""
    try:
        inspect.signature(cls).bind(**kwargs)
    except TypeError as error:
        raise Unfit(f"kwargs must fit {name}: {name}: {error}") from None
    except ValueError:  # no signature is known
        pass
    try:
        return cls(**kwargs)
    except Exception as error:
        if type(error).__name__ == "InvalidArgument":  # says it all in a line, and may be another copy's
            raise Unfit(str(error)) from None
        raise


def check_call(found: Any, name: str, kwargs: dict[str, Any]) -> None:
    """Refuse what cannot be called as f(dataset, size, rng)."""
    run = getattr(found, "sample", found)
    if not callable(run):
        raise Unfit(f"target must be a mechanism or a function, {name} is of type {type(found).__name__}")
    try:
        signature = inspect.signature(run)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(None, 1, None, **({} if run is not found else kwargs))
    except TypeError as error:
        raise Unfit(f"target must be callable as f(dataset, size, rng) once kwargs are bound, {name}{signature}: {error}") from None


_KEYS = ["claim", "domain", "seeded", "batch", "trials", "features", "primitives", "expected_failures", "expected_findings", "cause"]


def check_keys(found: Any, name: str) -> None:
    """Refuse what a target file says of a function under a name that means nothing."""
    for key in vars(found) if inspect.isfunction(found) else ():
        if key[0] != "_" and key not in _KEYS:
            raise Unfit(f"a target has the keys {', '.join(_KEYS)}, got {name}.{key}")


def is_plain(found: Any, claim: Any, domain: Any) -> bool:
    """Whether it is written as a target file says, without dpwitness: then datasets arrive as plain types."""
    return isinstance(claim, str) or isinstance(domain, dict) or (claim is not None and not hasattr(claim, "kind"))


def domain_of(domain: Any) -> Dict[str, Any] | None:  # noqa: UP006
    """A domain as its kind and fields; of a class of somebody's own, only the name of that."""
    if domain is None or isinstance(domain, dict):
        return domain
    cls = type(domain)
    if not (cls.__module__ + ".").startswith(_DOMAINS + ".") or not dataclasses.is_dataclass(cls) or cls.__name__ == "Relation":
        return {"own": cls.__name__}
    return dict({field.name: getattr(domain, field.name) for field in dataclasses.fields(cls) if field.init}, kind=cls.__name__)


def left_behind() -> int:
    """How many child processes of this one still run; 0 where /proc does not tell."""
    if not hasattr(os, "waitid"):
        return 0
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except (ChildProcessError, OSError):
        return 0  # the common case, at the price of one call
    count = 0
    try:
        for thread in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{thread}/children") as file:
                count += sum(map(_runs, file.read().split()))
    except OSError:
        pass
    return count


def _runs(pid: str) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] != b"Z"
    except (OSError, IndexError):
        return False


def version(library: str | None) -> str | None:
    """The installed version of a distribution."""
    if library is None:
        return None
    from importlib import metadata

    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return None


def install_line(place: str) -> dict[str, Any]:
    """LIBRARY and INSTALL of a file that cannot be imported, read from its text."""
    import ast

    found = {}
    try:
        with open(place, encoding="utf-8") as file:
            body = ast.parse(file.read()).body
    except (OSError, SyntaxError, ValueError):
        return {}
    for line in body:
        if isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name) and line.targets[0].id in ("LIBRARY", "INSTALL"):
            with contextlib.suppress(ValueError):
                found[line.targets[0].id.lower()] = ast.literal_eval(line.value)
    return found
