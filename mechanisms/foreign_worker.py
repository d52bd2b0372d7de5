"""The worker of a foreign target: runs a target file's functions in an interpreter that has NumPy and the library under test.

Stands alone (standard library and NumPy, Python 3.8 or later) and imports nothing of dpwitness; `foreign_process` starts it as a script.

Protocol, version 1. A message is a length (4 bytes, little-endian), a JSON header of that many bytes, and the raw little-endian bytes of
the arrays that the header refers to; ``header["blobs"]`` holds their sizes. The worker answers each request with one message:

=========  ===========================================================  =========================================================
request    fields                                                       answer
=========  ===========================================================  =========================================================
hello                                                                   protocol, versions of Python and NumPy
load       place (path or module), paths (to append to ``sys.path``)    LIBRARY, version, TESTED, INSTALL, names
describe   name, kwargs                                                 claim, domain, seeded, expected_failures, batch, trials, doc, cause
sample     name, kwargs, size, seed (words), data (and key), each       value, parts or raised; cpu, words, draws
=========  ===========================================================  =========================================================

An answer with ``error`` says what is wrong with the target, one with ``failed`` why the run cannot be an output. Nothing is pickled.
"""

from __future__ import annotations

import sys

if __name__ == "__main__" and sys.path and sys.path[0] == __file__.rpartition("/")[0]:
    del sys.path[0]  # the folder of this script: its modules must not stand before the library's

import contextlib
import itertools
import json
import os
import queue
import struct
import threading
import time
import traceback
import types
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, List  # noqa: UP035

import numpy as np

PROTOCOL = 1
KEPT = 16  # large datasets that a worker keeps, and its controller knows that it keeps
PLAIN = "fiubcmMSU"  # kinds of array dtypes that travel as raw bytes
_LOG = 2**20  # bytes of what the library prints that are kept
_TAG = "$"

Blobs = List[Any]  # noqa: UP006 - read by Python 3.8


# Values as JSON and raw bytes ---------------------------------------------------------------------------------------------------------


def pack(value: Any, blobs: Blobs) -> Any:
    """`value` as JSON types; the bytes of its arrays are appended to `blobs`. What has no such form keeps its type's name and text."""
    kind = type(value)
    if value is None or kind in (bool, str, float):
        return value
    if kind is int:
        return value if abs(value) < 2**63 else {_TAG: "int", "hex": hex(value)}
    if isinstance(value, np.generic) and value.dtype.kind in PLAIN:
        return {_TAG: "scalar", "dtype": value.dtype.str, "hex": value.tobytes().hex()}
    if isinstance(value, np.ndarray) and value.dtype.kind in PLAIN:
        return _array(value, blobs)
    if isinstance(value, np.ndarray) and value.dtype.hasobject and value.dtype.kind == "O":
        return {_TAG: "objects", "shape": list(value.shape), "items": [pack(v, blobs) for v in value.ravel()]}
    if isinstance(value, BaseException):
        return {_TAG: "exception", "class": kind.__name__, "text": _text(value, str)}
    if isinstance(value, dict):
        return {_TAG: "dict", "items": [[pack(k, blobs), pack(v, blobs)] for k, v in value.items()]}
    if isinstance(value, (list, tuple, set, frozenset)):
        return _sequence(value, blobs)
    if kind is bytes:
        return {_TAG: "bytes", "hex": value.hex()}
    for base in (int, float, str):
        if isinstance(value, base):
            return {_TAG: "kin", "class": kind.__name__, "base": base.__name__, "value": pack(base(value), blobs)}
    return {_TAG: "other", "class": kind.__name__, "text": _text(value, repr)}


def _array(value: Any, blobs: Blobs) -> dict[str, Any]:
    plain = np.asarray(value)
    if plain.dtype.byteorder == ">" or (plain.dtype.byteorder == "=" and sys.byteorder == "big"):
        plain = plain.astype(plain.dtype.newbyteorder("<"))
    blobs.append(plain.tobytes())
    return {_TAG: "array", "dtype": plain.dtype.str, "shape": list(plain.shape), "blob": len(blobs) - 1}


def _sequence(value: Any, blobs: Blobs) -> dict[str, Any]:
    """A list of one kind of number, or of arrays of one shape, is one array; anything else goes item by item."""
    name = next(base.__name__ for base in (list, tuple, set, frozenset) if isinstance(value, base))
    head = {_TAG: name}
    if type(value).__name__ != name:
        head["class"] = type(value).__name__
    kinds = set(map(type, value)) if len(value) > 8 and name in ("list", "tuple") else set()
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind in (float, bool) or (kind is int and max(map(abs, value)) < 2**63):
        return dict(head, of=kind.__name__, items=_array(np.array(value), blobs))
    if kind is not None and issubclass(kind, np.generic) and value[0].dtype.kind in "fiub":
        return dict(head, of="items", items=_array(np.array(value), blobs))
    if kind is np.ndarray and value[0].dtype.kind in "fiub" and len({(v.dtype, v.shape) for v in value}) == 1:
        return dict(head, of="items", items=_array(np.stack(value), blobs))
    return dict(head, items=[pack(v, blobs) for v in value])


def _text(value: Any, how: Callable[[Any], str]) -> str:
    try:
        return how(value)
    except Exception:
        return "<no text>"


def unpack(value: Any, blobs: Blobs) -> Any:
    """The inverse of `pack`. Types that are not built in come back as stand-ins of the same name; nothing is imported or run."""
    if isinstance(value, list):
        return [unpack(v, blobs) for v in value]
    if not isinstance(value, dict):
        return value
    tag = value[_TAG]
    if tag == "array":
        if 0 in value["shape"]:
            return np.empty(value["shape"], dtype=np.dtype(value["dtype"]))
        return np.frombuffer(blobs[value["blob"]], dtype=np.dtype(value["dtype"])).reshape(value["shape"]).copy()
    if tag == "scalar":
        return np.frombuffer(bytes.fromhex(value["hex"]), dtype=np.dtype(value["dtype"]))[0]
    if tag == "int":
        return int(value["hex"], 16)
    if tag == "bytes":
        return bytes.fromhex(value["hex"])
    if tag == "dict":
        return {unpack(k, blobs): unpack(v, blobs) for k, v in value["items"]}
    if tag == "objects":
        flat = np.empty(len(value["items"]), dtype=object)
        for i, item in enumerate(value["items"]):
            flat[i] = unpack(item, blobs)
        return flat.reshape(value["shape"])
    if tag in ("list", "tuple", "set", "frozenset"):
        items = unpack(value["items"], blobs)
        if "of" in value:
            items = list(items) if value["of"] == "items" else items.tolist()
        base = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}[tag]
        return (stand_in(value["class"], base) if "class" in value else base)(items)
    if tag == "kin":
        return stand_in(value["class"], {"int": int, "float": float, "str": str}[value["base"]])(unpack(value["value"], blobs))
    if tag == "exception":
        return stand_in(value["class"], Exception)(value["text"])
    if tag == "other":
        found = stand_in(value["class"], Opaque)()
        found.text = value["text"]
        return found
    raise ValueError(f"unknown tag {tag!r}")


class Opaque:
    """Stands for an object of which only its type's name and its text are known."""

    text = ""

    def __repr__(self) -> str:
        return self.text


_STAND_INS: dict[tuple[str, type], type] = {}


def stand_in(name: str, base: type) -> Any:
    """A class of this name, one for each (name, base)."""
    if (name, base) not in _STAND_INS:
        _STAND_INS[name, base] = type(name, (base,), {})
    return _STAND_INS[name, base]


def message(header: dict[str, Any], blobs: Blobs) -> list[bytes]:
    """The parts of a message, to be written one after the other."""
    text = json.dumps(dict(header, blobs=[len(b) for b in blobs])).encode()
    return [struct.pack("<I", len(text)) + text, *blobs]


def receive(read: Callable[[int], Any]) -> tuple[dict[str, Any], Blobs] | None:
    """One message; None at the end of the stream. `read` returns as many bytes as it is asked for, or fewer at the end."""
    head = read(4)
    if len(head) < 4:
        return None
    text = read(struct.unpack("<I", head)[0])
    header = json.loads(bytes(text).decode())
    return header, [read(size) for size in header.pop("blobs")]


# The worker ----------------------------------------------------------------------------------------------------------------------------


class Wrong(Exception):
    """What is wrong with the target, and the user's part of the traceback."""

    def __init__(self, reason: str, trace: str = "", **more: Any) -> None:
        super().__init__(reason)
        self.reply = dict(more, error=reason, traceback=trace)


class Worker:
    """Answers requests, one at a time."""

    def __init__(self) -> None:
        self.module: Any = None
        self.place = ""
        self.built: dict[str, Any] = {}
        self.kept: OrderedDict[str, tuple[Any, Blobs]] = OrderedDict()

    def answer(self, header: dict[str, Any], blobs: Blobs) -> tuple[dict[str, Any], Blobs]:
        out: Blobs = []
        try:
            reply = getattr(self, "do_" + header["op"])(header, blobs, out)
        except Wrong as wrong:
            return wrong.reply, []
        return reply, out

    def do_hello(self, header: dict[str, Any], blobs: Blobs, out: Blobs) -> dict[str, Any]:
        return {"protocol": PROTOCOL, "python": sys.version.split()[0], "numpy": np.__version__}

    def do_load(self, header: dict[str, Any], blobs: Blobs, out: Blobs) -> dict[str, Any]:
        import importlib
        import importlib.util

        self.place = header["place"]
        sys.path.extend(path for path in header["paths"] if path not in sys.path)
        with self._users_own("is not importable", **_install_line(self.place)):
            if self.place.endswith(".py"):
                spec: Any = importlib.util.spec_from_file_location("dpwitness_target", self.place)
                self.module = sys.modules["dpwitness_target"] = importlib.util.module_from_spec(spec)
                spec.loader.exec_module(self.module)
            else:
                self.module = importlib.import_module(self.place)
        library = getattr(self.module, "LIBRARY", None)
        found = vars(self.module)
        return {
            "library": library,
            "version": _version(library),
            "tested": getattr(self.module, "TESTED", None),
            "install": getattr(self.module, "INSTALL", None),
            "names": [name for name, f in found.items() if name[0] != "_" and _is_target(f)],
        }

    def do_describe(self, header: dict[str, Any], blobs: Blobs, out: Blobs) -> dict[str, Any]:
        name, kwargs = header["name"], unpack(header["kwargs"], blobs)
        found = self._find(name, kwargs)
        claim = getattr(found, "claim", None)
        if callable(claim):
            with self._users_own(f"{name}.claim raises"):
                claim = claim(**kwargs) if not isinstance(found, type) else claim()
        if claim is not None and not isinstance(claim, str):
            if not hasattr(claim, "kind"):
                raise Wrong(f"{name}.claim must be text like 'pure:1', or a function that returns such text, got {claim!r}")
            claim = f"{claim.kind}:{','.join(repr(float(v)) for v in claim.numbers)}"
        domain = getattr(found, "domain", None)
        if domain is not None and not isinstance(domain, dict):
            domain = dict(vars(domain) if hasattr(domain, "__dict__") else _slots(domain), kind=type(domain).__name__)
        return {
            "claim": claim,
            "domain": pack(domain, out),
            "seeded": bool(getattr(found, "seeded", True)),
            "expected_failures": dict(getattr(found, "expected_failures", None) or {}),
            "batch": getattr(found, "batch", None),
            "trials": getattr(found, "trials", None),
            "doc": (getattr(found, "__doc__", None) or "").strip().partition("\n")[0],
            "cause": str(getattr(found, "cause", "") or ""),
        }

    def do_sample(self, header: dict[str, Any], blobs: Blobs, out: Blobs) -> dict[str, Any]:
        kwargs = unpack(header["kwargs"], blobs)
        found = self._find(header["name"], kwargs)
        run = getattr(found, "sample", found)
        if found is not run or isinstance(getattr(self.module, header["name"], None), type):
            kwargs = {}
        dataset, before = self._dataset(header, blobs)
        rng = np.random.Generator(np.random.SFC64(np.random.SeedSequence(header["seed"])))
        size, draws = header["size"], []
        started = time.process_time()
        try:
            if header.get("each"):  # the draws that each single run takes
                value: Any = []
                for _ in range(size):
                    at = _drawn(rng)
                    try:
                        run(dataset, 1, rng, **kwargs)
                    except Exception as error:
                        value.append(error)
                    draws.append(_drawn(rng) - at)
            else:
                value = _batch(run, dataset, size, rng, kwargs)
        except MemoryError as error:
            return {"failed": f"the mechanism ran out of memory: {_text(error, str)}".rstrip(": ")}
        except (SystemExit, GeneratorExit, KeyboardInterrupt) as error:
            return {"failed": f"the mechanism ended its run with {type(error).__name__}: {error}"}
        seconds, words = time.process_time() - started, _drawn(rng)
        if _packed(dataset) != before:
            return {"failed": "mechanism changes its dataset in place; it must leave it as it found it"}
        if isinstance(value, Raised):
            return {"raised": pack(value.error, out), "cpu": seconds, "words": words}
        parts = isinstance(value, Parts)
        packed = [pack(part, out) for part in value] if parts else pack(value, out)
        return {"parts" if parts else "value": packed, "cpu": seconds, "words": words, "draws": draws}

    def _find(self, name: str, kwargs: dict[str, Any]) -> Any:
        found = self.module
        for part in name.split("."):
            if not hasattr(found, part):
                raise Wrong(f"target must name something in {self.place}, got {name!r}, which is not there")
            found = getattr(found, part)
        if not isinstance(found, type):
            return found
        key = f"{name} {kwargs!r}"
        if key not in self.built:
            with self._users_own(f"{name} cannot be built"):
                self.built[key] = found(**kwargs)
        return self.built[key]

    def _dataset(self, header: dict[str, Any], blobs: Blobs) -> tuple[Any, Any]:
        """A fresh copy of the dataset, and what it looks like before the run."""
        key: str = header.get("key", "")
        if "data" in header:
            found = header["data"], blobs
            if key:
                self.kept[key] = found
                if len(self.kept) > KEPT:
                    self.kept.popitem(last=False)
        else:
            found = self.kept[key]
        dataset = unpack(*found)
        return dataset, _packed(dataset)

    @contextlib.contextmanager
    def _users_own(self, what: str, **more: Any) -> Iterator[None]:
        """Exceptions of the user's code, with the user's part of the traceback."""
        try:
            yield
        except MemoryError:
            raise Wrong(f"{self.place} {what}: out of memory") from None
        except (Exception, SystemExit) as error:
            trace = error.__traceback__
            while trace is not None and _ours(trace.tb_frame.f_code.co_filename):
                trace = trace.tb_next
            text = "".join(traceback.format_exception(type(error), error, trace))
            if isinstance(error, ImportError):
                more = dict(more, missing=str(getattr(error, "name", None) or ""))
            raise Wrong(f"{type(error).__name__}: {error}", text, what=what, **more) from None


def _ours(file: str) -> bool:
    return file == __file__ or "importlib" in file


class Parts(list):  # type: ignore[type-arg]
    """Runs done one by one after a batch raised: arrays, lists and lists of exceptions, in order."""


class Raised:
    """A single run that raised."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def _batch(run: Callable[..., Any], dataset: Any, size: int, rng: Any, kwargs: dict[str, Any]) -> Any:
    try:
        return run(dataset, size, rng, **kwargs)
    except MemoryError:
        raise
    except Exception as error:
        if size == 1:
            return Raised(error)
    done: list[Any] = []
    for _ in range(size):
        try:
            done.append(run(dataset, 1, rng, **kwargs))
        except MemoryError:
            raise
        except Exception as error:
            done.append(Raised(error))
    return Parts(_joined(kind, list(same)) for kind, same in itertools.groupby(done, _kind))


def _kind(part: Any) -> Any:
    """Parts of equal kinds, one after the other, can be joined."""
    if isinstance(part, np.ndarray) and part.shape[:1] == (1,):
        return part.dtype, part.shape
    return type(part) if type(part) in (Raised, list) else id(part)


def _joined(kind: Any, parts: list[Any]) -> Any:
    if kind is Raised:
        return [part.error for part in parts]
    if kind is list:
        return [item for part in parts for item in part]
    return np.concatenate(parts) if isinstance(kind, tuple) else parts[0]


def _drawn(rng: Any) -> int:
    """64-bit words that the generator has given: SFC64 counts them in its state."""
    return int(rng.bit_generator.state["state"]["state"][3])


def _packed(dataset: Any) -> Any:
    blobs: Blobs = []
    return pack(dataset, blobs), blobs


def _is_target(found: Any) -> bool:
    return callable(found) and not isinstance(found, (type, types.ModuleType)) and hasattr(found, "claim")


def _slots(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in getattr(type(value), "__slots__", ())}


def _version(library: str | None) -> str | None:
    if library is None:
        return None
    from importlib import metadata

    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return None


def _install_line(place: str) -> dict[str, Any]:
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


def _begin(memory: int, parent: int) -> None:
    """Limits, and an end with the controller's end."""
    import faulthandler
    import signal

    faulthandler.enable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if memory:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    if sys.platform == "linux":
        import ctypes

        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        _end()


def _end() -> None:
    """End at once, with whatever processes the library has started."""
    import signal

    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(0)


def main() -> None:
    """Serve requests on standard input until it ends."""
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # what the library prints must not get between the messages
    _begin(int(sys.argv[1]), int(sys.argv[2]))
    inbox: queue.SimpleQueue[tuple[dict[str, Any], Blobs]] = queue.SimpleQueue()

    def listen() -> None:
        try:
            while True:
                found = receive(source.read)
                if found is None:
                    break
                inbox.put(found)
        finally:  # the controller has gone, or what it says makes no sense
            _end()

    threading.Thread(target=listen, daemon=True).start()
    worker = Worker()
    while True:
        header, blobs = inbox.get()
        if os.fstat(2).st_size > _LOG:
            os.ftruncate(2, 0)
        reply, out = worker.answer(header, blobs)
        for part in message(reply, out):
            sink.write(part)
        sink.flush()


if __name__ == "__main__":
    main()
