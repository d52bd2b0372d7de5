"""What a worker says of a target before it runs it: its promise, its domain, how it is called, and what it has started.

Stands alone (standard library, Python 3.8 or later), for `worker` reads it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import importlib.util
import inspect
import numbers
import os
import types
from typing import Any, Dict, List  # noqa: UP035

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


def method_hint(found: Any, name: str) -> str:
    """Return an ending for a message on an object that cannot be called: how its method is named. Empty for values of Python and NumPy."""
    if type(found).__module__.partition(".")[0] in ("builtins", "numpy", "types"):
        return ""
    methods = [key for key in dir(type(found)) if key[0] != "_" and callable(getattr(type(found), key))]
    return f": name a method of it, as in {name}.{methods[0]}" if methods else ""


def check_call(found: Any, name: str, kwargs: dict[str, Any]) -> None:
    """Refuse what cannot be called as f(dataset, size, rng)."""
    run = getattr(found, "sample", found)
    if not callable(run):
        raise Unfit(f"target must be a mechanism or a function, {name} is of type {type(found).__name__}{method_hint(found, name)}")
    try:
        signature = inspect.signature(run)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(None, 1, None, **({} if run is not found else kwargs))
    except TypeError as error:
        raise Unfit(f"target must be callable as f(dataset, size, rng) once kwargs are bound, {name}{signature}: {error}") from None


_MOST = 10**12  # runs


def _whole(value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (numbers.Integral, float)):
        raise ValueError
    found = int(value)
    if found != value or not least <= found <= _MOST:
        raise ValueError
    return found


def _flag(value: Any) -> bool:
    if str(value) not in ("True", "False"):  # also those of NumPy
        raise ValueError
    return str(value) == "True"


def _reasons(value: Any) -> Dict[str, str]:  # noqa: UP006
    if not isinstance(value, dict) or not all(isinstance(text, str) for pair in value.items() for text in pair):
        raise ValueError
    return dict(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


def _texts(value: Any) -> List[str]:  # noqa: UP006
    if isinstance(value, str):
        raise ValueError
    return [_text(part) for part in value]


def _function(value: Any) -> bool:
    if not callable(value):
        raise ValueError
    return True


# attribute: its rule, how it is read, and what it is where a target does not have it
_ATTRIBUTES: Dict[str, Any] = {  # noqa: UP006
    "batch": ("be a positive integer", lambda value: _whole(value, 1), None),
    "trials": ("be an integer, at least 1000", lambda value: _whole(value, 1000), None),
    "rounds": ("be a positive integer", lambda value: _whole(value, 1), None),
    "seeded": ("be True or False", _flag, True),
    "expected_failures": ("be a dict of checks and reasons, both texts", _reasons, {}),
    "expected_findings": ("be a dict of kinds and reasons, both texts", _reasons, {}),
    "features": ("be a function of the outputs", _function, False),
    "notes": ("be a list of texts", _texts, []),
    "cause": ("be a text", _text, ""),
}


def attributes_of(found: Any) -> Dict[str, Any]:  # noqa: UP006
    """Return what a target says of itself beside its claim and domain; raise Unfit where a value breaks the rule of its attribute."""
    told = {}
    for key, (rule, read, usual) in _ATTRIBUTES.items():
        value = getattr(found, key, None)
        try:
            told[key] = usual if value is None else read(value)
        except Exception:  # whatever a value does when it is looked at
            raise Unfit(f"{key} must {rule}, got {shown(value)}") from None
    domain = getattr(found, "domain", None)
    if isinstance(domain, (bool, numbers.Number, str, bytes, list, tuple, set)) or (isinstance(domain, dict) and "kind" not in domain):
        raise Unfit(f"domain must be a dict with a kind and its arguments, got {shown(domain)}")
    return told


def shown(value: Any) -> str:
    """A value in a message, on one line of at most 80 characters."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # a repr that raises, a number that is too long to print
        return f"an object of type {type(value).__name__}"
    return text if len(text) <= 80 else text[:77] + "..."


_KEYS = ["claim", "domain", "seeded", "batch", "trials", "features", "primitives", "expected_failures", "expected_findings", "cause"]


def check_keys(found: Any, name: str, plain: bool) -> List[str]:  # noqa: UP006
    """Refuse an attribute of a target file's function that has no meaning. Other functions may have any: notes on misspelled names."""
    notes = []
    for key in vars(found) if inspect.isfunction(found) else ():
        if key[:1] == "_" or key in _KEYS:
            continue
        near = difflib.get_close_matches(key, _KEYS, 1, 0.8)
        hint = f"; did you mean {near[0]}?" if near else ""
        if plain:
            raise Unfit(f"a target has the keys {', '.join(_KEYS)}, got {name}.{key}{hint}")
        if near:
            notes.append(f"{name}.{key} is not read{hint}")
    return notes


def is_target(found: Any) -> bool:
    """Whether a target file means it as a target: a function with a claim."""
    try:
        return callable(found) and not isinstance(found, (type, types.ModuleType)) and hasattr(found, "claim")
    except Exception:  # an object that raises when it is looked at
        return False


def is_missing(name: str, place: str) -> bool:
    """Whether a module that was not found is missing itself, or its library is not installed: else the library, or a file, is at fault."""
    if not name or place == name or place.startswith(name + "."):
        return bool(name)
    try:
        return importlib.util.find_spec(name.partition(".")[0]) is None
    except (ImportError, AttributeError, ValueError):  # loaded, without a spec
        return False


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
