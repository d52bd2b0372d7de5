"""What a file may have run. Importing a module runs it, so where a target lies is found, and judged, before anything is imported.

A witness names its target, and anybody may have written it. Run are only

- this project's own mechanisms, and the measures of its claims;
- targets that lie under the current folder, and objects that such modules define themselves;
- targets of the environments of ``dpwitness targets``;
- what the user names: ``--allow MODULE:NAME``, ``--target``, `mechanism`; a program always, by its whole command, and so a database query.

Callables that are built in or of the standard library are never run, whoever names them.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import sysconfig
import types
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dpwitness.auditors.targets.locating import home_of, imports_of, line_of, locate, standard
from dpwitness.auditors.targets.naming import FOREIGN, QUERY, built, imported, named
from dpwitness.mechanisms.foreign.program import resolved, script_of
from dpwitness.mechanisms.objects.forms import split_form
from dpwitness.mechanisms.terms.classes import is_known, public_name
from dpwitness.mechanisms.terms.jsonable import from_jsonable
from dpwitness.mechanisms.terms.reading import Json, items, listing, nullable, number, printable, record, shown, text
from dpwitness.mechanisms.terms.validation import InvalidArgument

_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_OWN = re.compile(
    r"dpwitness\.(mechanisms(\.(?!foreign|environments|third_party)[a-z_]+){0,2}|proofs_checks(\.claims)?\.[a-z_]+_(claims|worlds?))"
)
_OWN_FUNCTIONS = tuple(f"dpwitness.auditors{room}:feature_distance" for room in ("", ".sensitivity", ".measured.sensitivity"))
_INSTALLED = {"site-packages", "dist-packages"}
_TARGET = record({"kwargs": items(lambda value, _: value)}, target=text(1000, empty=False))
_limit = number(lambda v: 0 <= v <= 1e9, "a number, at least 0")
_sql = text(20_000)
_any = items(lambda value, _: value)
_QUERY = record(
    {"table": text(100), "setup": _sql, "claim": nullable(lambda v, _: v), "domain": nullable(_any)}, dsn=text(1000), query=_sql
)
_SIZE = 200_000  # dimensions, lengths, rounds of a mechanism


class NeedsWord(InvalidArgument):
    """A target that runs only if the user says so; `word` is what to allow."""

    def __init__(self, reason: str, word: str) -> None:
        super().__init__(f"{reason}; if it is to run, say so: --allow {printable(shlex.quote(word))}")
        self.word = word


def words_for(target: Json | None, scores: Sequence[Json] = ()) -> list[str]:
    """What ``dpwitness replay`` of a target must be allowed, from here, and of recorded `scores`."""
    found = [word for each in (target, *(score["target"] for score in scores)) for word in _words_for(each)]
    return list(dict.fromkeys(found))


def _words_for(target: Json | None) -> list[str]:
    words: list[str] = []
    while target is not None:
        try:
            Trust(tuple(words)).plan(target)
        except NeedsWord as needed:
            if needed.word not in words:
                words.append(needed.word)
                continue
        except InvalidArgument:
            pass
        break
    return words


def split_target(target: str, what: str = "target") -> tuple[str, str]:
    """PLACE and NAME of ``MODULE:NAME`` or ``FILE.py:NAME``."""
    place, _, name = target.rpartition(":")
    name, _ = split_form(name)
    if not place or not name:
        raise InvalidArgument(f"{what} must have the form MODULE:NAME or FILE.py:NAME, got {shown(target)}")
    if not _NAME.fullmatch(name) or "__" in name:
        raise InvalidArgument(f"{what} must name a function or a class, got {shown(name)}")
    if not place.endswith(".py") and not _NAME.fullmatch(place):
        raise InvalidArgument(f"{what} must name a module or a file that ends in .py, got {shown(place)}")
    return place, name


@dataclass(frozen=True, slots=True)
class Planned:
    """A target that may be run, not yet loaded.

    Attributes
    ----------
    target : str
        As the file names it.
    place : str
        Module or file that is imported.
    name : str
    file : Path or None
        Where it lies; None for the project's own.
    line : int or None
    kwargs : dict
        Its arguments, as the file holds them.
    """

    target: str
    place: str
    name: str
    kwargs: Json
    trust: Trust
    what: str
    file: Path | None = None
    line: int | None = None

    def told(self) -> str:
        """Target, file, line and arguments, in one line."""
        where = "" if self.file is None else f" ({_relative(self.file)}{'' if self.line is None else f', line {self.line}'})"
        arguments = json.dumps(self.kwargs)
        arguments = arguments if len(arguments) <= 400 else f"{arguments[:397]}..."
        return f"{printable(self.target)}{printable(where)}" + (f", arguments {arguments}" if self.kwargs else "")

    def load(self) -> Any:
        """Import it, and build it if it is a class. Raises InvalidArgument for what is not there, or is no callable that may run."""
        module = imported(self.place if self.file is None or not self.place.endswith(".py") else str(self.file), self.target)
        where = getattr(module, "__file__", None)
        itself = self.file is not None and split_form(self.target)[0] == f"{self.place}:{self.name}"  # and not what a worker will load
        if itself and (where is None or Path(where).resolve() != Path(str(self.file)).resolve()):
            raise InvalidArgument(f"{self.what} must be what lies in {self.file}, but {self.place} was imported from {where}")
        found = named(module, self.name, self.place)
        self.trust.check_object(found, self)
        kwargs = {key: from_jsonable(value, f"{self.what}.kwargs.{key[:60]}", self.trust.class_of) for key, value in self.kwargs.items()}
        return built(found, self.target.rpartition(":")[2], kwargs)


@dataclass(frozen=True, slots=True)
class Trust:
    """The rule under which targets of one file are run.

    Parameters
    ----------
    allow : sequence of str
        ``MODULE:NAME`` or ``FILE.py:NAME`` that the user lets run; also paths of interpreters.
    base : Path, optional
        The folder of the file, where relative paths of target files are looked for too.
    folder : Path
        The current folder.
    """

    allow: Sequence[str] = ()
    base: Path | None = None
    folder: Path = field(default_factory=Path.cwd)

    def __post_init__(self) -> None:
        if isinstance(self.allow, str) or not all(isinstance(entry, str) for entry in self.allow):
            raise InvalidArgument(f"replay: allow must be a list of MODULE:NAME, got {self.allow!r}")

    def plan(self, target: Any, what: str = "target") -> Planned:
        """Judge a target of the file without importing it.

        Raises
        ------
        InvalidArgument
            If it is malformed, not there, or may not run; the message says how to let it.
        """
        fields = _TARGET(target, what)
        place, name = split_target(fields["target"], what)
        plan = Planned(fields["target"], place, name, fields.get("kwargs", {}), self, what)
        if fields["target"] == FOREIGN:
            return self._foreign(plan)
        if fields["target"] == QUERY:
            return self._query(plan)
        if place.partition(".")[0] == "dpwitness" and not place.endswith(".py"):
            if not _OWN.fullmatch(place) and fields["target"] not in _OWN_FUNCTIONS:
                raise InvalidArgument(f"{what} {shown(plan.target)} is no mechanism of this project")
            _small(plan.kwargs, f"{what}.kwargs")
            return plan
        file = self._permitted(place, name, what)
        return Planned(plan.target, place, name, plan.kwargs, self, what, file, line_of(file, name))

    def _permitted(self, place: str, name: str, what: str) -> Path:
        """Where a module or file lies, if it may run."""
        if not place.endswith(".py") and standard(place):
            raise InvalidArgument(f"{what} {shown(f'{place}:{name}')} is of the standard library, which no witness may have run")
        files = [self._file(place, name)] if place.endswith(".py") else locate(place, self.folder)
        if not self._allowed(place, name, files[-1]):
            for file in files:
                if not self._mine(file):
                    target = f"{place}:{name}"
                    raise NeedsWord(f"{what} {shown(target)} lies in {file}, outside the current folder", target)
        return files[-1]

    def _file(self, place: str, name: str) -> Path:
        """The file of a relative path: under the current folder, or from the folder of the witness upwards."""
        path = Path(place)
        tried = [self.folder / path]
        if self.base is not None and not path.is_absolute():
            base = self.base.resolve()
            tried += [folder / path for folder in (base, *list(base.parents)[:4])]
        for candidate in tried:
            try:
                if candidate.is_file():
                    return candidate.resolve()
            except (OSError, ValueError):
                continue
        raise InvalidArgument(f"target must name an existing file, got {shown(place)}; if it has moved, say where: --target FILE.py:{name}")

    def _allowed(self, place: str, name: str, file: Path) -> bool:
        for entry in self.allow:
            if split_form(entry)[0] == f"{place}:{name}":
                return True
            where, _, what = split_form(entry)[0].rpartition(":")
            if where.endswith(".py") and what == name and (self.folder / where).resolve() == file:
                return True
        return False

    def _mine(self, file: Path) -> bool:
        """Whether a file lies under the current folder, and is not something that was installed there."""
        folder = self.folder.resolve()
        real = file.resolve()
        if folder == Path(folder.anchor) or not real.is_relative_to(folder):
            return False
        library = Path(sysconfig.get_path("stdlib")).resolve()
        return not (_INSTALLED & set(real.relative_to(folder).parts)) and not real.is_relative_to(library)

    def check_object(self, found: Any, plan: Planned) -> None:
        """Refuse an object that merely passes through a module that may be imported."""
        home = home_of(found)
        if isinstance(found, types.ModuleType) or (standard(home) and not _own_script(home, plan)):
            raise InvalidArgument(f"{plan.what} {shown(plan.target)} is built in or of the standard library, which no witness may have run")
        if plan.file is None:
            runs = isinstance(found, type) and callable(getattr(found, "sample", None)) and is_known(public_name(found))
            measured = isinstance(found, types.FunctionType) and home.startswith("dpwitness.proofs_checks.") and _OWN.fullmatch(home)
            if not (runs or measured or plan.target in (*_OWN_FUNCTIONS, FOREIGN, QUERY)):
                raise InvalidArgument(f"{plan.what} {shown(plan.target)} is no mechanism of this project")
            return
        expected = plan.file.stem if plan.place.endswith(".py") else plan.place
        if home != expected and not self._allowed(plan.place, plan.name, plan.file):
            self._home(home, plan)

    def _home(self, home: str, plan: Planned) -> None:
        """An object of another module than the one that names it: that module is judged too."""
        if home.partition(".")[0] == "dpwitness" and _OWN.fullmatch(home):
            return
        if not all(self._mine(file) for file in locate(home, self.folder)):
            told = f"{plan.what} {shown(plan.target)} is of the module {home}, outside the current folder"
            raise NeedsWord(told, f"{plan.place}:{plan.name}")

    def class_of(self, name: str, path: str) -> type:
        """A dataset class that is not this project's, under the rule of targets."""
        place, cls = split_target(name, path)
        if place.partition(".")[0] == "dpwitness":
            raise InvalidArgument(f"{path} must be one of this project's dataset classes, got {shown(name)}")
        plan = self.plan({"target": name}, path)
        found = named(imported(place if not place.endswith(".py") else str(plan.file), name), cls, place)
        self.check_object(found, plan)
        if not isinstance(found, type):
            raise InvalidArgument(f"{path} must name a class, got {shown(name)}")
        return found

    def _query(self, plan: Planned) -> Planned:
        """A database query: it may read files, so it runs where the user names its database and its text."""
        held = _QUERY(plan.kwargs, f"{plan.what}.kwargs")
        told = [held["dsn"], held["query"], *filter(None, [held.get("setup")])]
        if (word := " ".join(told)) not in self.allow:
            raise NeedsWord(f"{plan.what} is a database query, which runs only if it is named", word)
        return plan

    def _foreign(self, plan: Planned) -> Planned:
        """A target that runs in an interpreter of its own: its file, its name and the interpreter are judged."""
        from dpwitness.mechanisms.foreign.environments import adapter_file, environments

        free = items(lambda v, _: v)
        rule = record(
            {"python": nullable(text(1000)), "kwargs": free, "time_limit": _limit, "memory_limit": _limit},
            file=text(1000, empty=False),
            name=text(200, empty=False),
        )
        if "command" in plan.kwargs:
            return self._program(plan)
        fields = rule(plan.kwargs, f"{plan.what}.kwargs")
        place, name, python = fields["file"], fields["name"], fields.get("python")
        split_target(f"{place}:{name}", plan.what)
        known = python is None or python in environments()
        if not known and not any(_same_path(python, one) for one in (*self.allow, sys.executable)):
            raise NeedsWord(f"{plan.what} runs in the interpreter {shown(python)}, which is none of `dpwitness targets`", python)
        adapter = None if place.endswith(".py") else adapter_file(place)
        if adapter is None:
            file = self._permitted(place, name, plan.what)
            if place.endswith(".py"):
                fields["file"] = str(file)
        else:
            file = adapter
        name, _ = split_form(name)
        if name.partition(".")[0] in imports_of(file):
            raise InvalidArgument(f"{plan.what} must be defined in {_relative(file)}, {shown(name)} is only imported there")
        return Planned(
            f"{place}:{name}", "dpwitness.mechanisms.foreign.target", "Target", fields, self, plan.what, file, line_of(file, name)
        )

    def _program(self, plan: Planned) -> Planned:
        """A program runs only where its whole command is named, and its folder if that is not the current one."""
        rule = record(
            {"cwd": text(1000), "text": text(10), "time_limit": _limit, "memory_limit": _limit}, command=listing(text(10_000), 1, 1000)
        )
        fields = rule(plan.kwargs, f"{plan.what}.kwargs")
        folder = (self.folder / fields.get("cwd", ".")).resolve()
        word = shlex.join(fields["command"]) + ("" if folder == self.folder.resolve() else f" in {folder}")
        if word not in self.allow:
            raise NeedsWord(f"{plan.what} runs the program {shown(word)}", word)
        file = script_of(fields["command"], str(folder)) or Path(resolved(fields["command"], str(folder)))
        return Planned(word, "dpwitness.mechanisms.foreign.target", "Target", fields | {"cwd": str(folder)}, self, plan.what, file)


def _small(kwargs: Any, path: str) -> None:
    """Sizes of arrays and loops within what a file may ask for: others are for the user to build. Numbers of records are no such size."""
    left = [(path, kwargs)]
    while left:
        here, item = left.pop()
        for key, value in item.items() if isinstance(item, dict) else ():
            if isinstance(value, int) and abs(value) > _SIZE and key != "records":
                raise InvalidArgument(f"{here}.{key} must be at most {_SIZE:,} in a witness, got {shown(value)}; else give the mechanism")
            left.append((f"{here}.{key[:60]}", value))


def _same_path(one: str, other: str) -> bool:
    """As it is written, links kept: an environment's interpreter is a link, and what it imports lies beside the link."""
    return one == other or (os.sep in one and os.path.abspath(one) == os.path.abspath(other))


def _own_script(home: str, plan: Planned) -> bool:
    """A user's file may bear the name of a standard module that was never loaded from there."""
    return plan.file is not None and home == plan.file.stem and getattr(sys.modules.get(home), "__file__", None) == str(plan.file)


def _relative(path: Path) -> str:
    found = os.path.relpath(path)
    return str(path) if found.startswith("..") else found
