"""Trust rules: which targets named in a file may run.

Importing a module runs its code. So a target is located and checked before anything is imported.
A witness names its target, and anyone may have written the witness. Only these targets run:

- this project's own mechanisms, and the measures of its claims;
- targets under the current folder, and objects that such modules define themselves;
- targets of the environments of ``dpwitness targets``;
- targets that the user names by ``--allow MODULE:NAME``, ``--target`` or `mechanism`. A program or
  a database query always needs this, by its full command or text.

Built-in callables and those of the standard library never run, even if the user names them.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import sysconfig
import types
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dpwitness.auditors.workers.descriptions import (
    FOREIGN,
    QUERY,
    defining_module,
    imports_of,
    line_of,
    module_files,
    parsed_file,
    standard,
)
from dpwitness.auditors.workers.loading import built, imported, named, split_target
from dpwitness.core.values.json_codec import from_jsonable, known_class, public_name
from dpwitness.core.values.json_reader import (
    Json,
    anything,
    items,
    listing,
    nullable,
    number,
    printable,
    record,
    short_json,
    text,
)
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.mechanisms.wrappers.programs.environments import adapter_file, environments
from dpwitness.mechanisms.wrappers.programs.program import command_script, resolved
from dpwitness.mechanisms.wrappers.recognition import split_form

_DOTTED_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_OWN_MODULE = re.compile(
    r"dpwitness\.((core|mechanisms)(\.(?!programs|recording)[a-z_]+){0,2}|proofs_checks(\.claims)?\.[a-z_]+_(claims|worlds?))"
)
_OWN_FUNCTIONS = tuple(
    f"dpwitness.auditors{room}:feature_distance"
    for room in ("", ".sensitivity", ".measured.sensitivity")
)
_TARGET_RULE = record({"kwargs": items(anything)}, target=text(1000, empty=False))
_limit = number(lambda v: 0 <= v <= 1e9, "a number, at least 0")
_QUERY_RULE = record(
    {
        "table": text(100),
        "setup": text(20_000),
        "claim": anything,
        "domain": nullable(items(anything)),
    },
    dsn=text(1000),
    query=text(20_000),
)
_FOREIGN_RULE = record(
    {
        "python": nullable(text(1000)),
        "kwargs": items(anything),
        "time_limit": _limit,
        "memory_limit": _limit,
    },
    file=text(1000, empty=False),
    name=text(200, empty=False),
)
_PROGRAM_RULE = record(
    {"cwd": text(1000), "text": text(10), "time_limit": _limit, "memory_limit": _limit},
    command=listing(text(10_000), 1, 1000),
)
_TARGET_MODULE = "dpwitness.mechanisms.wrappers.programs.target"
_MAX_SIZE = 200_000  # largest dimension, length or number of rounds of a mechanism


class NeedsPermission(InvalidArgument):
    """Error for a target that runs only if the user allows it; `word` is the text to pass to
    ``--allow``.
    """

    def __init__(self, reason: str, word: str) -> None:
        super().__init__(f"{reason}; to run it, pass --allow {printable(shlex.quote(word))}")
        self.word = word


def permissions_for(target: Json | None, scores: Sequence[Json] = ()) -> list[str]:
    """Return the ``--allow`` texts that ``dpwitness replay`` needs in the current folder for a
    target and for `scores`.
    """
    words: list[str] = []
    for each in filter(None, (target, *(score["target"] for score in scores))):
        with suppress(InvalidArgument):
            word = _missing_permission(each, words)
            while word is not None and word not in words:
                words.append(word)
                word = _missing_permission(each, words)
    return words


def _missing_permission(target: Json, allow: Sequence[str]) -> str | None:
    """Return the ``--allow`` text that a target needs in addition; None if it may run."""
    try:
        Trust(tuple(allow)).plan(target)
    except NeedsPermission as needed:
        return needed.word
    return None


def dotted_target(target: str, what: str = "target") -> tuple[str, str]:
    """Return PLACE and NAME of ``MODULE:NAME`` or ``FILE.py:NAME``, without its form, if both are
    names without dunders.
    """
    place, name = split_target(target, what)
    name, _ = split_form(name)
    if not _DOTTED_NAME.fullmatch(name) or "__" in name:
        raise InvalidArgument(f"{what} must name a function or a class, got {short_json(name)}")
    if not place.endswith(".py") and not _DOTTED_NAME.fullmatch(place):
        raise InvalidArgument(
            f"{what} must name a module or a file that ends in .py, got {short_json(place)}"
        )
    return place, name


@dataclass(frozen=True, slots=True)
class PlannedTarget:
    """Target that may run and is not loaded yet."""

    target: str  # target as the file names it
    place: str  # module or file to import
    name: str  # name in the module
    kwargs: Json  # arguments as recorded in the file
    trust: Trust
    argument: str  # name of the argument in messages
    file: Path | None = None  # source file; None for the project's own targets
    line: int | None = None  # line of the definition

    def describe(self) -> str:
        """Return target, file, line and arguments in one line."""
        line = "" if self.line is None else f", line {self.line}"
        where = "" if self.file is None else f" ({_short_path(self.file)}{line})"
        arguments = json.dumps(self.kwargs)
        arguments = arguments if len(arguments) <= 400 else f"{arguments[:397]}..."
        given = f", arguments {arguments}" if self.kwargs else ""
        return f"{printable(self.target)}{printable(where)}{given}"

    def find(self) -> Any:
        """Import the target, and return it if it may run.

        Raises InvalidArgument if the target does not exist, is not a callable that may run, or if
        another file than the planned one defines its module.
        """
        # also by the module of an earlier layout
        found = known_class(f"{self.place}:{self.name}") if self.file is None else None
        if found is None:
            is_script = self.file is not None and self.place.endswith(".py")
            module = imported(str(self.file) if is_script else self.place, self.target)
            where = Path(getattr(module, "__file__", None) or os.devnull)
            # a worker loads other targets
            is_here = split_form(self.target)[0] == f"{self.place}:{self.name}"
            if self.file is not None and is_here and where.resolve() != self.file.resolve():
                raise InvalidArgument(
                    f"{self.argument} must come from {self.file}, but {self.place} was imported "
                    f"from {where}"
                )
            found = named(module, self.name, self.place)
        self.trust.check_object(found, self)
        return found

    def load(self) -> Any:
        """Return the target as `find` does, built from its arguments if it is a class."""
        found = self.find()
        kwargs = {
            key: from_jsonable(
                value, f"{self.argument}.kwargs.{key[:60]}", self.trust.resolve_class
            )
            for key, value in self.kwargs.items()
        }
        return built(found, self.target.rpartition(":")[2], kwargs)


@dataclass(frozen=True, slots=True)
class Trust:
    """Rules that decide which targets of one file may run."""

    # ``MODULE:NAME`` or ``FILE.py:NAME`` that the user allows to run, and paths of interpreters
    allow: Sequence[str] = ()
    # folder of the file. Relative paths of target files are also resolved from here.
    base: Path | None = None
    folder: Path = field(default_factory=Path.cwd)  # current folder

    def __post_init__(self) -> None:
        if isinstance(self.allow, str) or not all(isinstance(entry, str) for entry in self.allow):
            raise InvalidArgument(
                f"replay: allow must be a list of MODULE:NAME, got {self.allow!r}"
            )

    def plan(self, target: Any, what: str = "target") -> PlannedTarget:
        """Check a target of the file without importing it.

        Raises
        ------
        InvalidArgument
            If the target is malformed, does not exist, or may not run. The message says how to
            allow it.
        """
        fields = _TARGET_RULE(target, what)
        place, name = dotted_target(fields["target"], what)
        plan = PlannedTarget(fields["target"], place, name, fields.get("kwargs", {}), self, what)
        if fields["target"] == FOREIGN:
            is_program = "command" in plan.kwargs
            return self._plan_program(plan) if is_program else self._plan_foreign(plan)
        if fields["target"] == QUERY:  # may read files: the user names its database and its text
            query = _QUERY_RULE(plan.kwargs, f"{what}.kwargs")
            word = " ".join(filter(None, [query["dsn"], query["query"], query.get("setup")]))
            if word not in self.allow:
                raise NeedsPermission(
                    f"{what} is a database query, which runs only if it is named", word
                )
            return plan
        if place.partition(".")[0] == "dpwitness" and not place.endswith(".py"):
            if not _OWN_MODULE.fullmatch(place) and fields["target"] not in _OWN_FUNCTIONS:
                raise InvalidArgument(
                    f"{what} {short_json(plan.target)} is not a mechanism of this project"
                )
            # users may build larger mechanisms themselves; the number of records is not limited
            for path, value in _large_numbers(plan.kwargs, f"{what}.kwargs"):
                raise InvalidArgument(
                    f"{path} must be at most {_MAX_SIZE:,} in a witness, got {short_json(value)}; "
                    "for larger sizes, pass the mechanism"
                )
            return plan
        file = self._permitted_file(place, name, what)
        return replace(plan, file=file, line=line_of(file, name))

    def _permitted_file(self, place: str, name: str, what: str) -> Path:
        """Return the file of a module or path, if it may run."""
        if not place.endswith(".py") and standard(place):
            raise InvalidArgument(
                f"{what} {short_json(f'{place}:{name}')} is in the standard library, which a "
                "witness may not run"
            )
        files = (
            [self._resolve_file(place, name)]
            if place.endswith(".py")
            else module_files(place, self.folder)
        )
        outside = [file for file in files if not self._in_user_folder(file)]
        if outside and not self._allowed(place, name, files[-1]):
            target = f"{place}:{name}"
            raise NeedsPermission(
                f"{what} {short_json(target)} lies in {outside[0]}, outside the current folder",
                target,
            )
        return files[-1]

    def _resolve_file(self, place: str, name: str) -> Path:
        """Resolve a relative path under the current folder, or under the witness's folder and its
        parents.
        """
        path = Path(place)
        tried = [self.folder / path]
        if self.base is not None and not path.is_absolute():
            base = self.base.resolve()
            tried += [folder / path for folder in (base, *list(base.parents)[:4])]
        found = next(filter(os.path.isfile, tried), None)
        if found is None:
            raise InvalidArgument(
                f"target must name an existing file, got {short_json(place)}; if it has moved, "
                f"pass its new path: --target FILE.py:{name}"
            )
        return found.resolve()

    def _allowed(self, place: str, name: str, file: Path) -> bool:
        """Return whether the user allows this target."""
        entries = (split_form(entry)[0].rpartition(":") for entry in self.allow)
        return any(
            where == place or (where.endswith(".py") and (self.folder / where).resolve() == file)
            for where, _, what in entries
            if what == name
        )

    def _in_user_folder(self, file: Path) -> bool:
        """Return whether a file lies under the current folder and is not an installed package."""
        folder, real = self.folder.resolve(), file.resolve()
        if folder == Path(folder.anchor) or not real.is_relative_to(folder):
            return False
        installed = {"site-packages", "dist-packages"} & set(real.relative_to(folder).parts)
        library = Path(sysconfig.get_path("stdlib")).resolve()
        return not installed and not real.is_relative_to(library)

    def check_object(self, found: Any, plan: PlannedTarget) -> None:
        """Raise InvalidArgument for an object that an importable module merely re-exports."""
        home = defining_module(found)
        # a file of the user may have the name of a standard module
        is_user_script = (
            plan.file is not None
            and home == plan.file.stem
            and getattr(sys.modules.get(home), "__file__", None) == str(plan.file)
        )
        if isinstance(found, types.ModuleType) or (standard(home) and not is_user_script):
            raise InvalidArgument(
                f"{plan.argument} {short_json(plan.target)} is built in or in the standard "
                "library, which a witness may not run"
            )
        if plan.file is None:
            if not _is_own(found) and plan.target not in (*_OWN_FUNCTIONS, FOREIGN, QUERY):
                raise InvalidArgument(
                    f"{plan.argument} {short_json(plan.target)} is not a mechanism of this project"
                )
            return
        expected = plan.file.stem if plan.place.endswith(".py") else plan.place
        # the module that defines the object may be another than the module that names it
        if (
            home != expected
            and not self._allowed(plan.place, plan.name, plan.file)
            and not _OWN_MODULE.fullmatch(home)
            and not all(self._in_user_folder(file) for file in module_files(home, self.folder))
        ):
            reason = (
                f"{plan.argument} {short_json(plan.target)} is defined in the module {home}, "
                "outside the current folder"
            )
            raise NeedsPermission(reason, f"{plan.place}:{plan.name}")

    def resolve_class(self, name: str, path: str) -> type:
        """Import a dataset class that is not this project's, under the rules for targets. Raise
        InvalidArgument unless the name is that of a class that may be imported.
        """
        if dotted_target(name, path)[0].partition(".")[0] == "dpwitness":
            raise InvalidArgument(
                f"{path} must be one of this project's dataset classes, got {short_json(name)}"
            )
        found = self.plan({"target": name}, path).find()
        if not isinstance(found, type):
            raise InvalidArgument(f"{path} must name a class, got {short_json(name)}")
        return found

    def _plan_program(self, plan: PlannedTarget) -> PlannedTarget:
        """Check a program. The user must name its full command, and its folder if this is not the
        current one.
        """
        fields = _PROGRAM_RULE(plan.kwargs, f"{plan.argument}.kwargs")
        command, folder = fields["command"], (self.folder / fields.get("cwd", ".")).resolve()
        here = folder == self.folder.resolve()
        word = shlex.join(command) + ("" if here else f" in {folder}")
        if word not in self.allow:
            raise NeedsPermission(f"{plan.argument} runs the program {short_json(word)}", word)
        file = command_script(command, str(folder)) or Path(resolved(command, str(folder)))
        kwargs = fields | {"cwd": str(folder)}
        return replace(
            plan, target=word, place=_TARGET_MODULE, name="Target", kwargs=kwargs, file=file
        )

    def _plan_foreign(self, plan: PlannedTarget) -> PlannedTarget:
        """Check a target that runs in a separate interpreter: its file, its name and the
        interpreter.
        """
        fields = _FOREIGN_RULE(plan.kwargs, f"{plan.argument}.kwargs")
        place, name, python = fields["file"], fields["name"], fields.get("python")
        dotted_target(f"{place}:{name}", plan.argument)
        allowed = (*self.allow, sys.executable)
        # paths are compared as written: an environment's interpreter is a link, and its packages
        # lie next to the link
        if python is not None and not (
            python in (*environments(), *allowed)
            or (os.sep in python and os.path.abspath(python) in map(os.path.abspath, allowed))
        ):
            raise NeedsPermission(
                f"{plan.argument} runs in the interpreter {short_json(python)}, which is not "
                "an environment of `dpwitness targets`",
                python,
            )
        adapter = adapter_file(place)
        file = adapter or self._permitted_file(place, name, plan.argument)
        if place.endswith(".py"):
            fields["file"] = str(file)
        name, _ = split_form(name)
        if name.partition(".")[0] in imports_of(parsed_file(file)):
            raise InvalidArgument(
                f"{plan.argument} must be defined in {_short_path(file)}, {short_json(name)} "
                "is only imported there"
            )
        return replace(
            plan,
            target=f"{place}:{name}",
            place=_TARGET_MODULE,
            name="Target",
            kwargs=fields,
            file=file,
            line=line_of(file, name),
        )


def _is_own(found: Any) -> bool:
    """Return whether an object is a mechanism of this project, or a measure of its claims."""
    if isinstance(found, type):
        return (
            callable(getattr(found, "sample", None)) and known_class(public_name(found)) is not None
        )
    measures = found.__module__ if isinstance(found, types.FunctionType) else ""
    return measures.startswith("dpwitness.proofs_checks.") and bool(_OWN_MODULE.fullmatch(measures))


def _large_numbers(value: Any, path: str) -> Iterator[tuple[str, int]]:
    """Yield the numbers above `_MAX_SIZE` in JSON objects, each with its path."""
    for key, item in value.items() if isinstance(value, dict) else ():
        if isinstance(item, int) and abs(item) > _MAX_SIZE and key != "records":
            yield f"{path}.{key}", item
        yield from _large_numbers(item, f"{path}.{key[:60]}")


def _short_path(path: Path) -> str:
    """Return a path relative to the current folder, if it lies inside."""
    found = os.path.relpath(path)
    return str(path) if found.startswith("..") else found
