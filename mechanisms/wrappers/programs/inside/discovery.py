"""Discovery of the public names of a package, in the interpreter that the package is installed in.

Uses the standard library only (Python 3.8 or later). `package_discovery` starts this file as a
script, sends one line of JSON, and reads lines of JSON: ``package``, ``importing``, ``failed``,
``repair``, ``note``, ``object``, ``example`` and ``done``. The line ``importing`` comes before each
import, so that the reader knows which module ended the process.

=========  =============================================================================================================
request    meaning
=========  =============================================================================================================
package    name of a package or of a distribution; empty for a folder
folder     folder with modules and packages; empty for a package
skip       modules that are not imported, because they ended or blocked an earlier process
answered   whether requests to the network at import get an empty answer
most       largest number of objects
=========  =============================================================================================================
"""  # noqa: E501

from __future__ import annotations

import sys

if __name__ == "__main__" and sys.path and sys.path[0] == __file__.rpartition("/")[0]:
    del sys.path[0]  # the folder of this script, whose modules must not shadow the library's

import contextlib
import importlib
import importlib.util
import json
import os
import pkgutil
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

_SKIPPED_MODULES = (
    "tests",
    "test",
    "testing",
    "conftest",
    "setup",
    "examples",
    "example",
    "docs",
    "benchmarks",
    "__main__",
    "_version",
)
_WATCHED = (
    "open",
    "os.mkdir",
    "os.rename",
    "os.remove",
    "socket.connect",
    "socket.getaddrinfo",
    "subprocess.Popen",
    "os.fork",
    "os.posix_spawn",
)
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_MOST_NOTES = 20


def main() -> None:
    """Answer the request on standard input. What the package prints goes to standard error."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    request = json.loads(sys.stdin.readline())

    def emit(event: str, **fields: Any) -> None:
        out.write(json.dumps(dict(fields, event=event), default=str) + "\n")
        out.flush()

    with contextlib.suppress(BrokenPipeError):
        Discovery(request, emit).run()
        emit("done")
    out.close()
    os._exit(0)  # threads that the package has started do not keep the process alive


class Discovery:
    """Import of all modules of a package, and description of the public names in them."""

    def __init__(self, request: dict[str, Any], emit: Callable[..., None]) -> None:
        self.request, self.emit = request, emit
        self.tops: list[str] = []
        self.modules: dict[str, Any] = {}
        self.effects = SideEffects(emit)
        self.distribution: Any = None
        self.failed: dict[str, str] = {}
        self.repairs: list[str] = []

    def run(self) -> None:
        """Find the top modules, import all modules, and describe the objects."""
        try:
            self.tops, about = self._top_modules()
        except Exception as error:
            self.emit(
                "failed",
                module=self.request.get("package") or self.request.get("folder"),
                error=_error_text(error),
                missing=True,
            )
            return
        self.emit("package", tops=self.tops, **about)
        if self.request.get("answered"):
            _answer_network_requests()
        self.effects.watch()
        pending = list(self.tops)
        while pending:
            name = pending.pop(0)
            module = self._imported(name)
            if module is not None:
                self.modules[name] = module
                pending += [child for child in _children(name, module) if child not in self.modules]
        self.effects.stop()
        descriptions = from_sibling("descriptions")
        descriptions.uses_of = from_sibling("parameter_uses").uses_of
        unimported = from_sibling("unimported")
        descriptions.add_signatures = unimported.add_signatures
        names = descriptions.describe_all(
            self.modules, self.tops, self.emit, self.request.get("most", 3000)
        )
        unimported.describe_sources(self.failed, _is_skipped, self.emit, names)
        for call in from_sibling("examples").calls_in_examples(self.modules, self.distribution):
            if call["name"] in names:
                self.emit("example", **call)

    def _top_modules(self) -> tuple[list[str], dict[str, Any]]:
        """Return the names of the top modules, and facts about the package."""
        about: dict[str, Any] = {
            "python": sys.version.split()[0],
            "numpy": importlib.util.find_spec("numpy") is not None,
        }
        folder = self.request.get("folder")
        if folder:
            root, names = _folder_modules(folder)
            sys.path.insert(0, root)
            return names, dict(about, root=root, distribution=None, version=None, entry_points=[])
        from importlib import metadata

        package = self.request["package"]
        distribution, tops = None, [package]
        for name in (package, package.replace("_", "-"), package.replace("-", "_")):
            with contextlib.suppress(Exception):
                found = metadata.distribution(name)
                distribution = found
                own = _modules_of(found)
                tops = (
                    [package]
                    if package in own or (importable(package) and not own)
                    else own or [package]
                )
                break
        if distribution is None and "-" not in package:
            distribution = _owner(metadata, package.partition(".")[0])
        if not importable(tops[0]):
            raise ImportError(
                "no module or distribution of this name is installed in " + sys.executable
            )
        self.distribution = distribution
        if distribution is None:
            return tops, dict(about, distribution=None, version=None, entry_points=[], summary="")
        return tops, dict(
            about,
            distribution=distribution.metadata["Name"],
            version=distribution.version,
            entry_points=[[p.group, p.name, p.value] for p in distribution.entry_points],
            summary=_summary(distribution),
        )

    def _imported(self, name: str) -> Any:
        """Import one module and return it; None if it cannot be imported or is to be skipped."""
        if name in self.request.get("skip", ()):
            self.failed[name] = "its import ended the process"
            return None
        self.emit("importing", module=name)
        threads, processes, printed = threading.active_count(), _children_of_process(), _log_size()
        try:
            module = importlib.import_module(name)
        except BaseException as error:  # a module may raise anything, also SystemExit
            line = next(
                (
                    each
                    for each in from_sibling("repairs").repairs(name, error)
                    if each not in self.repairs
                ),
                "",
            )
            if not line.startswith("sys.path") and not line.startswith("sys.modules['src']"):
                self._fail(name, error)
            return self._repaired(name, line) if line else None
        for count, what in (
            (threading.active_count() - threads, "starts {} thread(s) at import"),
            (_children_of_process() - processes, "starts {} process(es) at import"),
        ):
            if count > 0:
                self.emit("note", module=name, text=what.format(count))
        if _log_size() > printed:
            self.emit("note", module=name, text="prints at import")
        return module

    def _fail(self, name: str, error: BaseException) -> None:
        """Keep the reason why a module cannot be imported, and send it, unless it is that of a
        package around the module.
        """
        text, parts = _error_text(error), name.split(".")
        if not any(self.failed.get(".".join(parts[:end])) == text for end in range(1, len(parts))):
            self.emit(
                "failed",
                module=name,
                error=text,
                network=_asks_network(error),
                missing=_missing(error),
            )
        self.failed[name] = text

    def _repaired(self, name: str, line: str) -> Any:
        """Import a module once more, after a repair; None if it still cannot be imported."""
        self.repairs.append(line)
        try:
            from_sibling("repairs").apply(line)
        except Exception:
            return None
        self.emit("repair", line=line)
        return self._imported(name)


class SideEffects:
    """Notes on what a package does at import besides defining names: files, connections and
    processes.
    """

    def __init__(self, emit: Callable[..., None]) -> None:
        self.emit, self.on, self.seen = emit, False, set()  # type: Any, bool, Any
        self.home = os.path.realpath(os.environ.get("TMPDIR") or os.getcwd())

    def watch(self) -> None:
        """Start to record; an audit hook cannot be removed, but stopped."""
        self.on = True
        with contextlib.suppress(Exception):
            sys.addaudithook(self._heard)

    def stop(self) -> None:
        self.on = False

    def _heard(self, event: str, arguments: Any) -> None:
        if not self.on or event not in _WATCHED or len(self.seen) >= _MOST_NOTES:
            return
        text = ""
        with contextlib.suppress(Exception):
            text = self._describe(event, arguments)
        if text and text not in self.seen:
            self.seen.add(text)
            self.on = False
            self.emit("note", module="", text=text)
            self.on = True

    def _describe(self, event: str, arguments: Any) -> str:
        if event == "open":
            path, mode, flags = arguments
            writes = (isinstance(mode, str) and any(letter in mode for letter in "wax+")) or (
                isinstance(flags, int) and flags & _WRITING
            )
            outside = isinstance(path, (str, bytes)) and self._outside(os.fsdecode(path))
            return (
                "opens a file for writing outside of the working folder: " + os.fsdecode(path)
                if writes and outside
                else ""
            )
        if event in ("os.mkdir", "os.rename", "os.remove"):
            path = os.fsdecode(arguments[0])
            return (
                event[3:] + " outside of the working folder: " + path if self._outside(path) else ""
            )
        if event == "socket.connect":
            return "connects to " + str(arguments[1])
        if event == "socket.getaddrinfo":
            return "asks the network for " + str(arguments[0])
        return (
            "starts a process: " + str(arguments[0] if arguments else "")[:120]
            if event != "os.fork"
            else "forks"
        )

    def _outside(self, path: str) -> bool:
        full = os.path.realpath(path)
        return (
            not full.startswith((self.home, "/dev/"))
            and not full.endswith(".pyc")
            and "__pycache__" not in full
        )


def from_sibling(name: str) -> Any:
    """Load and return the module of this name in this script's folder, under a name that no library
    uses.
    """
    spec: Any = importlib.util.spec_from_file_location(
        "dpwitness_" + name, os.path.join(os.path.dirname(__file__), name + ".py")
    )
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def importable(name: str) -> bool:
    """Return whether a module of this name can be found."""
    try:
        return importlib.util.find_spec(name) is not None
    except Exception:  # a parent package may raise anything
        return importlib.util.find_spec(name.partition(".")[0]) is not None


def _modules_of(distribution: Any) -> list[str]:
    """Return the top modules that a distribution installs, without those for tests and private
    ones.
    """
    text = distribution.read_text("top_level.txt")
    names = text.split() if text else []
    if not names:
        parts = [
            file.parts
            for file in distribution.files or ()
            if file.suffix == ".py" and ".." not in file.parts
        ]
        names = sorted(
            {
                path[0][:-3] if len(path) == 1 else path[0]
                for path in parts
                if not path[0].endswith((".dist-info", ".data"))
            }
        )
    names = [name.replace("/", ".") for name in names]
    return [
        name
        for name in names
        if name[0] != "_" and name.partition(".")[0] not in _SKIPPED_MODULES and importable(name)
    ]


def _summary(distribution: Any) -> str:
    """Return the summary and the first lines of the description of a distribution."""
    with contextlib.suppress(Exception):
        text = distribution.metadata.get_payload() or distribution.metadata["Description"] or ""
        return (distribution.metadata["Summary"] or "") + "\n" + str(text)[:2000]
    return ""


def _owner(metadata: Any, top: str) -> Any:
    """Return the distribution that installs a top module; None if unknown."""
    for found in metadata.distributions():
        with contextlib.suppress(Exception):
            if (
                top in (found.read_text("top_level.txt") or "").split()
                or found.metadata["Name"].replace("-", "_").lower() == top.lower()
            ):
                return found
    return None


def _folder_modules(folder: str) -> tuple[str, list[str]]:
    """Return the folder to import from, and the top modules in it."""
    folder = os.path.realpath(folder)
    if os.path.isfile(os.path.join(folder, "__init__.py")):
        return os.path.dirname(folder), [os.path.basename(folder)]
    names = []
    for entry in sorted(os.listdir(folder)):
        path, (stem, ending) = os.path.join(folder, entry), os.path.splitext(entry)
        is_module = ending == ".py" and stem.isidentifier()
        is_package = (
            os.path.isdir(path)
            and entry.isidentifier()
            and os.path.isfile(os.path.join(path, "__init__.py"))
        )
        if (is_module or is_package) and not _is_skipped(stem):
            names.append(stem)
    if not names and os.path.isdir(os.path.join(folder, "src")):
        return _folder_modules(os.path.join(folder, "src"))
    return folder, names


def _is_skipped(name: str) -> bool:
    return name.startswith(("_", "test_")) or name.endswith("_test") or name in _SKIPPED_MODULES


def _children(name: str, module: Any) -> Iterator[str]:
    """Yield the public modules inside of a package."""
    paths = getattr(module, "__path__", None)
    if paths is None or not isinstance(module, types.ModuleType):
        return
    with contextlib.suppress(Exception):
        for found in sorted(pkgutil.iter_modules(list(paths)), key=lambda each: each.name):
            if not _is_skipped(found.name):
                yield name + "." + found.name
        for path in paths:  # folders without __init__.py, which iter_modules leaves out
            for entry in sorted(os.scandir(path), key=lambda each: each.name):
                if (
                    entry.is_dir()
                    and entry.name.isidentifier()
                    and not _is_skipped(entry.name)
                    and _is_namespace(entry.path)
                ):
                    yield name + "." + entry.name


def _is_namespace(folder: str) -> bool:
    """Return whether a folder is a package without ``__init__.py``: it holds Python files, or
    folders with such files.
    """
    names = os.listdir(folder)
    return "__init__.py" not in names and any(
        file.endswith(".py") for _, _, files in os.walk(folder) for file in files
    )


def _error_text(error: BaseException) -> str:
    """Return the class and the first line of an exception."""
    try:
        text = str(error).strip().splitlines()[:1]
    except Exception:
        text = []
    return type(error).__name__ + (": " + text[0][:300] if text else "")


def _chain(error: Any) -> Iterator[BaseException]:
    for _ in range(10):
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__


def _asks_network(error: BaseException) -> bool:
    """Return whether an import failed because the network is cut off."""
    names = (
        "URLError",
        "ConnectionError",
        "gaierror",
        "MaxRetryError",
        "NewConnectionError",
        "ConnectTimeout",
        "NameResolutionError",
    )
    return any(
        type(each).__name__ in names or getattr(each, "errno", None) in (101, 113, -2, -3)
        for each in _chain(error)
    )


def _missing(error: BaseException) -> str:
    """Return the name of the module that is not installed; empty for another error."""
    return next(
        (
            str(each.name)
            for each in _chain(error)
            if isinstance(each, ModuleNotFoundError) and each.name
        ),
        "",
    )


def _children_of_process() -> int:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            return len(file.read().split())
    except OSError:
        return 0


def _log_size() -> int:
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.flush()
        return os.fstat(2).st_size
    return 0


def _answer_network_requests() -> None:
    """Replace the usual functions that ask the network by functions that return an empty answer."""
    with contextlib.suppress(Exception):
        import urllib.request

        urllib.request.urlopen = lambda *_, **__: _Answer()
    with contextlib.suppress(Exception):
        requests = importlib.import_module("requests")
        requests.Session.request = lambda *_, **__: _Answer()


class _Answer:
    """Empty answer to a request for a web page."""

    status_code = status = code = 200
    # in the form of a package index, as most ask for the newest version of themselves
    text = '{"info": {"version": "0"}}'
    ok, content, headers, url = True, text.encode(), {}, ""  # type: Any, Any, Any, Any

    def read(self, *_: Any) -> bytes:
        return bytes(self.content)

    def json(self) -> Any:
        return json.loads(self.text)

    def raise_for_status(self) -> None:
        return None

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: Any) -> None:
        return None


if __name__ == "__main__":
    main()
