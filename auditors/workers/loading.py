"""Import of a mechanism by the name and arguments that describe it (`descriptions`)."""

from __future__ import annotations

import functools
import importlib
import re
import sys
from pathlib import Path
from typing import Any

from dpwitness.core.values.json_codec import from_jsonable, known_class
from dpwitness.core.values.json_reader import Json, short_json
from dpwitness.core.values.validation import InvalidArgument, did_you_mean
from dpwitness.mechanisms.wrappers.recognition import formed, split_form


def split_target(target: str, what: str = "target") -> tuple[str, str]:
    """Return PLACE and NAME of ``MODULE:NAME`` or ``FILE.py:NAME``. Raise InvalidArgument for
    another form.
    """
    place, _, name = target.rpartition(":")
    if not place or not name:
        raise InvalidArgument(
            f"{what} must have the form MODULE:NAME or FILE.py:NAME, got {short_json(target)}"
        )
    return place, name


def find_target(target: str) -> Any:
    """Import ``MODULE:NAME`` or ``FILE.py:NAME`` and return the named object. A class is not
    instantiated.

    Raises
    ------
    InvalidArgument
        If module, file or name do not exist.
    """
    place, name = split_target(target)
    name, _ = split_form(name)
    registered = known_class(f"{place}:{name}")  # also by the module of an earlier layout
    return named(imported(place, target), name, place) if registered is None else registered


def load_target(target: str, kwargs: Json | None = None) -> Any:
    """Import ``MODULE:NAME`` or ``FILE.py:NAME``, build a class with `kwargs`, or bind a function
    to them.

    This function is for targets that the user names. Targets named in a file go through
    `dpwitness.auditors.workers.trust`.

    Raises
    ------
    InvalidArgument
        If module, file or name do not exist, or the keywords do not fit.
    """
    found = find_target(target)
    name = target.rpartition(":")[2]
    return built(
        found,
        name,
        {key: from_jsonable(value, f"kwargs.{key}") for key, value in (kwargs or {}).items()},
    )


def imported(place: str, target: str) -> Any:
    """Import a module, or a file as a module, so that worker processes can import it too. Raise
    InvalidArgument if there is no such module or file, or another module has the name of the file.
    """
    if place.endswith(".py"):
        path = Path(place).resolve()
        if not path.is_file():
            raise InvalidArgument(f"target must name an existing file, got {place!r}")
        _add_to_path(path.parent)  # so that worker processes find the module by its name
        found = importlib.import_module(path.stem)
        where = getattr(found, "__file__", None)
        if where is None or Path(where).resolve() != path:
            raise InvalidArgument(
                f"target must have a unique file name, got {place!r}: a module {path.stem!r} is "
                f"already loaded from {where or 'Python itself'}"
            )
        return found
    if not all(part.isidentifier() for part in place.split(".")):
        raise InvalidArgument(
            "target must name a module such as package.module, or a file that ends in .py, "
            f"got {target!r}"
        )
    _add_to_path(Path.cwd())
    try:
        # moved there
        return importlib.import_module(
            re.sub(r"(?<=^dpwitness\.proofs_checks\.)(?=\w+_claims$)", "claims.", place)
        )
    except ModuleNotFoundError as error:
        if error.name is not None and (place == error.name or place.startswith(error.name + ".")):
            raise InvalidArgument(
                f"target must be importable, got {target!r}: no module named {error.name!r}"
            ) from None
        raise


def _add_to_path(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def named(module: Any, name: str, place: str) -> Any:
    """Return the object with a dotted name in a module. Raise InvalidArgument if the module has no
    such object.
    """
    found = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise InvalidArgument(
                f"target must name something in {place}, got {name!r}, which is not there"
                f"{did_you_mean(part, dir(found))}"
            )
        found = getattr(found, part)
    return found


def built(found: Any, name: str, kwargs: Json) -> Any:
    """Return the mechanism that a loaded object and its arguments make: an instance of a class, a
    function with bound keywords, or a mechanism in the form that `name` ends with. Raise
    InvalidArgument if the arguments do not fit.
    """
    _, form = split_form(name)
    if form:
        return formed(found, kwargs, form)
    if isinstance(found, type):
        try:
            return found(**kwargs)
        except TypeError as error:
            raise InvalidArgument(f"kwargs must fit {name}: {error}") from None
    against = getattr(type(found), "against", None)  # of an interactive session
    if against is not None and set(kwargs) == {"adversary"}:
        return against(found, kwargs["adversary"])
    return functools.partial(found, **kwargs) if kwargs else found
