"""Worker process of a target: runs a target file's functions in an interpreter with NumPy and the
library under test.

Uses only the standard library and NumPy (Python 3.8 or later); `worker_pool` starts it by `launch`.
The worker answers each request with one
message (`codec`), and ends when its standard input ends. Requests, their fields, and the fields of
the answers:

- ``hello``: versions of Python and NumPy
- ``load``, with place (path or module) and paths (to append to ``sys.path``): library, version,
  names
- ``recognize``, with name, kwargs and dataset: form, name, text
- ``describe``, with name and kwargs: claim, domain and the other attributes of a target
- ``sample``, with name, kwargs, size, seed (words), data (and key) and each: value, parts or
  raised; draws and warned
- ``features``, with name, kwargs and outputs: value or raised
- ``declarations``: declared
- ``call``, with name, keywords, calls (lists of arguments) and marker (path): outcomes
- ``trace``, with step: ``open`` (name, kwargs, entries, limit), a method of
  `RecordingSession` with its arguments, or ``close``: value

An answer with ``error`` describes a fault of the target. An answer with ``failed`` is the reason
why there is no output. A batch that raises is not run again: its answer is ``raised``. With
``each``, runs are made one at a time, and their results are in ``parts``.
"""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import importlib.metadata
import importlib.util
import inspect
import os
import queue
import signal
import sys
import threading
import traceback
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

from dpwitness.core.values.validation import did_you_mean, short_repr
from dpwitness.mechanisms.wrappers.programs.inside import codec, target_runs
from dpwitness.mechanisms.wrappers.programs.inside.launch import FOLDER, own_modules
from dpwitness.mechanisms.wrappers.programs.supervisor import PARENT_DEATH_SIGNAL, prctl
from dpwitness.mechanisms.wrappers.recording import global_generators

_MAX_LEFT = 32  # processes that may still run after a batch


class Server:
    """Server of requests, one at a time. The method `do_<op>` answers the request `op`."""

    def __init__(self) -> None:
        self.module: Any = None
        self.place = ""
        self.built: dict[str, Any] = {}
        self.last: Any = None
        self.looks = 8
        self.hears = 16  # remaining batches whose warnings are reported
        self.datasets = target_runs.DatasetCache()
        self.session: Any = None

    def answer(
        self, header: codec.Message, blobs: codec.Blobs
    ) -> tuple[codec.Message, codec.Blobs]:
        out: codec.Blobs = []
        try:
            return getattr(self, "do_" + header["op"])(header, blobs, out), out
        except target_runs.NoAnswer as refused:
            return refused.reply, []

    def do_hello(
        self, header: codec.Message, blobs: codec.Blobs, out: codec.Blobs
    ) -> codec.Message:
        return {"python": sys.version.split()[0], "numpy": np.__version__}

    def do_load(self, header: codec.Message, blobs: codec.Blobs, out: codec.Blobs) -> codec.Message:
        self.place = header["place"]
        paths = [path for path in header["paths"] if path not in sys.path]
        # the target's folder is searched first, as for a script, or last
        sys.path[:] = [*paths, *sys.path] if header.get("front") else [*sys.path, *paths]
        is_file = self.place.endswith(".py")
        with self._user_code("is not importable"):
            if importlib.util.find_spec("dpwitness") is None:  # the wrappers do without the rest
                folder = os.path.join(FOLDER, "mechanisms", "wrappers")
                with own_modules():
                    found = _load_module(
                        "dpwitness.mechanisms.wrappers",
                        os.path.join(folder, "__init__.py"),
                        submodule_search_locations=[folder],
                    )
                found.wrap = sys.modules["dpwitness"] = sys.modules["dpwitness.wrap"] = found
                found.domains = sys.modules["dpwitness.domains"] = types.ModuleType("domains")
                found.domains.__getattr__ = _refuse_name
            load = functools.partial(_load_module, "dpwitness_target")
            self.module = (load if is_file else importlib.import_module)(self.place)
        # in a library, this name may have another meaning
        library = getattr(self.module, "LIBRARY", None) if is_file else None
        if library is not None and not (isinstance(library, str) and library):
            raise target_runs.UnusableTarget(
                f"{os.path.basename(self.place)}: LIBRARY must be a non-empty text, got "
                f"{short_repr(library)}"
            )
        version = None
        with contextlib.suppress(importlib.metadata.PackageNotFoundError, TypeError, ValueError):
            version = importlib.metadata.version(library or "")
        targets = [key for key, value in vars(self.module).items() if target_runs.is_target(value)]
        return {
            "library": library,
            "version": version,
            "names": [name for name in targets if name[0] != "_"],
        }

    def do_recognize(
        self, header: codec.Message, blobs: codec.Blobs, out: codec.Blobs
    ) -> codec.Message:
        kwargs, dataset = (codec.unpack(header[key], blobs) for key in ("kwargs", "dataset"))
        found = self._lookup(header["name"])
        base, _, method = header["name"].rpartition(".")
        owner = self._lookup(base) if base else None
        if isinstance(owner, type) and inspect.isfunction(vars(owner).get(method)):
            text = f"{base} is created for each run, and its method {method} is called"
            return {"form": f"object.{method}", "name": base, "text": text}
        with self._user_code(f"{header['name']} fails in a trial call"):
            form, description = _recognition().recognize(found, header["name"], kwargs, dataset)
        return {"form": form, "name": header["name"], "text": description}

    def do_describe(
        self, header: codec.Message, blobs: codec.Blobs, out: codec.Blobs
    ) -> codec.Message:
        name, kwargs = header["name"], codec.unpack(header["kwargs"], blobs)
        found = self._find_target(name, kwargs)
        if " as " in name:
            kwargs = {}
        target_runs.check_call(found, name, kwargs)
        at = f"{os.path.basename(self.place)}:{name}"
        with self._user_code(f"{name}: an attribute raises"):
            claim, domain = getattr(found, "claim", None), getattr(found, "domain", None)
            # written without dpwitness, as target files are: its datasets are plain types
            plain = isinstance(claim, str) or isinstance(domain, dict)
            plain = plain or (claim is not None and not hasattr(claim, "kind"))
            unread = target_runs.check_attribute_names(found, name, plain)
            description = target_runs.attributes_of(found, f"{at}: ")
        with self._user_code(f"{name}.claim raises"):
            if callable(claim):
                claim = claim() if isinstance(found, type) else claim(**kwargs)
            claim = getattr(claim, "spelled", claim)
        if claim is not None and not isinstance(claim, str):
            raise target_runs.UnusableTarget(
                f"{at}: claim must be text like 'pure:1', or a function that returns such text, "
                f"got {short_repr(claim)}"
            )
        description["notes"] = description["notes"] + unread
        return dict(
            description,
            claim=claim,
            domain=codec.pack(target_runs.domain_of(domain), out),
            plain=plain,
            density=callable(getattr(found, "log_density", None)),
            queries=codec.pack(getattr(found, "queries", None), out),
            doc=str(getattr(found, "__doc__", None) or "").strip().partition("\n")[0],
        )

    def do_sample(
        self, header: codec.Message, blobs: codec.Blobs, out: codec.Blobs
    ) -> codec.Message:
        _, run, kwargs = self._find_sampler(header, blobs)
        dataset, before = self.datasets.copy(header, blobs)
        state = codec.unpack(header["rng"], None)
        bits = getattr(np.random, state["bit_generator"])()
        bits.state = state
        rng = np.random.Generator(bits)
        size, draws, raised, value = header["size"], [], None, None
        global_generators.seed(header["seed"])
        warned: list[str] = []
        with target_runs.reported_failures("the mechanism"), contextlib.ExitStack() as stack:
            if self.hears:
                stack.enter_context(target_runs.collect_warnings(warned))
            try:
                if header.get("each"):
                    value, draws = target_runs.one_by_one(run, dataset, size, rng, kwargs)
                else:
                    value = run(dataset, size, rng, **kwargs)
            except Exception as error:
                if isinstance(error, MemoryError) or target_runs.is_failure(error):
                    raise
                raised = error.with_traceback(None)
        self.hears = max(self.hears - 1, 0)
        left = target_runs.running_children()
        faults = (
            (
                left > _MAX_LEFT,
                f"leaves processes behind: {left} still run after a batch; it must end what it "
                "starts",
            ),
            (
                before is not None and target_runs.state_of(dataset) != before,
                "changes its dataset in place; the dataset must stay unchanged",
            ),
            (
                raised is None and self._is_output_reused(value),
                "returns the same buffer in every call: an output changes with the next call; "
                "return a new array each time",
            ),
        )
        for is_fault, text in faults:
            if is_fault:
                raise target_runs.NoOutput(f"mechanism {text}")
        # the generator goes back as the mechanism left it
        left_state = codec.pack(rng.bit_generator.state, None)
        reply = {"draws": draws, "warned": warned, "rng": left_state}
        try:
            if raised is not None:
                reply["raised"] = codec.pack(raised, out)
            elif isinstance(value, target_runs.RunParts):
                reply["parts"] = [codec.pack(part, out) for part in value]
            else:
                reply["value"] = codec.pack(value, out)
        except RecursionError:
            raise target_runs.NoOutput(
                "mechanism returned an output that is nested too deeply to be read, or contains "
                "itself"
            ) from None
        return reply

    def do_trace(
        self, header: codec.Message, blobs: codec.Blobs, out: codec.Blobs
    ) -> codec.Message:
        with own_modules():
            from dpwitness.mechanisms.wrappers.recording import primitives, recorder
            from dpwitness.mechanisms.wrappers.recording import session as recording
        step, arguments = header["step"], codec.unpack(header["arguments"], blobs)
        try:
            if step == "open":
                found, run, kwargs = self._find_sampler(header, blobs)
                own = [getattr(self.module, "PRIMITIVES", None), getattr(found, "primitives", None)]
                entries = [tuple(entry) for entry in arguments["entries"]]
                entries += [e for each in own for e in primitives.entries_of(each)]
                session = recording.RecordingSession(
                    functools.partial(run, **kwargs) if kwargs else run,
                    entries,
                    home=self.module,
                    time_limit=arguments["limit"],
                )
                self.session = session.__enter__()
                return {"value": None}
            if step == "close":
                if self.session is not None:
                    self.session.__exit__()
                self.session = None
                return {"value": None}
            if "data" in header:
                arguments["dataset"] = self.datasets.copy(header, blobs)[0]
            return {"value": codec.pack(getattr(self.session, step)(**arguments), out)}
        except recorder.Stopped as stopped:
            return {"stopped": str(stopped) or "time limit"}
        except primitives.WrongPrimitive as wrong:
            return {"error": str(wrong), "traceback": ""}

    def do_features(
        self, header: codec.Message, blobs: codec.Blobs, out: codec.Blobs
    ) -> codec.Message:
        found = self._find_target(header["name"], codec.unpack(header["kwargs"], blobs))
        with target_runs.reported_failures("the mechanism's features"):
            try:
                found = found.features(codec.unpack(header["outputs"], blobs))
                return {"value": codec.pack(found, out)}
            except Exception as error:
                if isinstance(error, MemoryError):
                    raise
                return {"raised": codec.pack(error, out)}

    def do_declarations(
        self, header: codec.Message, blobs: codec.Blobs, out: codec.Blobs
    ) -> codec.Message:
        """Return TARGETS of the target file."""
        found = getattr(self.module, "TARGETS", {}) if hasattr(self.module, "__file__") else {}
        file = os.path.basename(self.place)
        if not isinstance(found, dict):
            raise target_runs.UnusableTarget(
                f"{file}: TARGETS must be a dict of names and declarations, got {short_repr(found)}"
            )
        for name, declaration in found.items():
            kind = declaration.get("kind") if isinstance(declaration, dict) else None
            if not (isinstance(name, str) and name.isidentifier() and isinstance(kind, str)):
                raise target_runs.UnusableTarget(
                    f"{file}: each entry of TARGETS must have an identifier and a dict with a "
                    f"kind, got {short_repr(name)}: {short_repr(declaration)}"
                )
        return {"declared": codec.pack(found, out)}

    def do_call(self, header: codec.Message, blobs: codec.Blobs, out: codec.Blobs) -> codec.Message:
        """Call a function with each list of arguments, and return values and exceptions; `marker`
        is a file for the current position.
        """
        function = self._lookup(header["name"])
        if not callable(function) or isinstance(function, types.ModuleType):
            raise target_runs.UnusableTarget(
                f"{header['name']} must be a function, got {short_repr(function)}"
            )
        keywords, outcomes = header["keywords"], []
        with open(header["marker"], "r+b", buffering=0) as marker:
            for i, packed in enumerate(header["calls"]):
                arguments = codec.unpack(packed, blobs)
                os.pwrite(marker.fileno(), b"%20d" % i, 0)
                kept = len(out)
                try:
                    named = dict(zip(keywords, arguments))
                    value = function(**named) if keywords else function(*arguments)
                    outcomes.append({"value": codec.pack(value, out, exact=True)})
                except (KeyboardInterrupt, GeneratorExit):
                    raise
                except BaseException as error:  # native code may raise a BaseException
                    del out[kept:]
                    try:
                        raised = codec.pack(error.with_traceback(None), out)
                    except Exception:
                        raised = codec.pack(RuntimeError(type(error).__name__), out)
                    outcomes.append({"raised": raised})
        return {"outcomes": outcomes}

    def _is_output_reused(self, value: Any) -> bool:
        """Return whether the output of the previous call has changed since. Only a worker's first
        calls are checked.
        """
        if self.looks == 0 or isinstance(value, target_runs.RunParts):
            return False
        self.looks -= 1
        before, self.last = self.last, None
        with contextlib.suppress(Exception):
            if before is not None and target_runs.state_of(before[0]) != before[1]:
                return True
            self.last = (value, target_runs.state_of(value)) if self.looks else None
        return False

    def _find_sampler(
        self, header: codec.Message, blobs: codec.Blobs
    ) -> tuple[Any, Any, dict[str, Any]]:
        """Return the target, its sampling function, and the arguments that each call takes."""
        name, kwargs = header["name"], codec.unpack(header["kwargs"], blobs)
        found = self._find_target(name, kwargs)
        run = getattr(found, "sample", found)
        is_class = isinstance(getattr(self.module, name, None), type)
        was_built = found is not run or " as " in name or is_class
        return found, run, {} if was_built else kwargs

    def _find_target(self, name: str, kwargs: dict[str, Any]) -> Any:
        """Return the target of this name. Classes, and functions with a form, are built once per
        arguments.
        """
        base, _, form = name.partition(" as ")
        found, key = self._lookup(base), f"{name} {kwargs!r}"
        if not isinstance(found, type) and not form:
            return found
        if key not in self.built:
            what = f"{base} cannot be taken as {form}" if form else f"{name} cannot be built"
            with self._user_code(what):
                if form:
                    self.built[key] = _recognition().formed(found, kwargs, form)
                else:
                    self.built[key] = target_runs.built(found, name, kwargs)
        return self.built[key]

    def _lookup(self, name: str) -> Any:
        """Return the object of a dotted name in the target module. Raise UnusableTarget if there is
        none.
        """
        found = self.module
        for part in name.split("."):
            if not hasattr(found, part):
                raise target_runs.UnusableTarget(
                    f"target must name something in {self.place}, got {name!r}, which is not there"
                    f"{did_you_mean(part, dir(found))}"
                )
            found = getattr(found, part)
        return found

    @contextlib.contextmanager
    def _user_code(self, what: str) -> Iterator[None]:
        """Turn exceptions of the user's code into UnusableTarget, with the user's part of the
        traceback.
        """
        try:
            yield
        except target_runs.UnusableTarget:
            raise
        except MemoryError:
            raise target_runs.UnusableTarget(f"{self.place} {what}: out of memory") from None
        except (Exception, SystemExit) as error:
            # says it all in a line, and may be another copy's
            if type(error).__name__ == "InvalidArgument":
                raise target_runs.UnusableTarget(str(error)) from None
            trace, own = error.__traceback__, (os.path.dirname(__file__), "importlib")
            # to the first frame outside of the worker and of importlib
            while trace and any(part in trace.tb_frame.f_code.co_filename for part in own):
                trace = trace.tb_next
            text = "".join(traceback.format_exception(type(error), error, trace))
            missing = error.name if isinstance(error, ModuleNotFoundError) else None
            more = {"missing": missing} if target_runs.is_missing(missing, self.place) else {}
            raise target_runs.UnusableTarget(
                f"{type(error).__name__}: {codec.text_of(error, str)}", text, what=what, **more
            ) from None


def _load_module(name: str, path: str, **more: Any) -> Any:
    """Load and return the module at this path; `more` has the folders of a package."""
    spec: Any = importlib.util.spec_from_file_location(name, path, **more)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _refuse_name(name: str) -> Any:
    """Raise AttributeError for a relation or domain, which the wrappers do not have."""
    raise AttributeError(
        f"dpwitness.domains.{name} is missing in this interpreter, where dpwitness is not "
        "installed: define relations and domains in another file, and name it: "
        "TARGET.domain = 'FILE.py:NAME'"
    )


def _recognition() -> Any:
    """Return the module that recognizes functions of one run, objects and estimators."""
    with own_modules():
        return importlib.import_module("dpwitness.mechanisms.wrappers.recognition")


def _kill_group() -> None:
    """Kill this process and all processes of its group."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(0)


def main() -> None:
    """Serve requests on standard input until it ends."""
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # output that the library prints must not mix with the messages
    faulthandler.enable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != int(os.environ.pop("DPWITNESS_KEEPER")):
        _kill_group()
    inbox: queue.SimpleQueue[tuple[codec.Message, codec.Blobs]] = queue.SimpleQueue()

    def listen() -> None:
        try:
            while True:
                found = codec.receive(source.readline, source.read)
                if found is None:
                    break
                inbox.put(found)
        finally:  # the controller has ended, or has sent an invalid message
            _kill_group()

    threading.Thread(target=listen, daemon=True).start()
    worker = Server()
    while True:
        header, blobs = inbox.get()
        own_pid = os.getpid()
        reply, out = worker.answer(header, blobs)
        if os.getpid() != own_pid:  # a forked child of the mechanism: only the parent may answer
            os._exit(0)
        for part in codec.message(reply, out):
            sink.write(part)
        sink.flush()
