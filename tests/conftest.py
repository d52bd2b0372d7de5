"""Fixtures and hooks of all tests."""

import atexit
import contextlib
import io
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path

import pytest

# pytest also rewrites the assertions of each package with a plugin: of hypothesis and dpwitness,
# 600 modules in every worker.
for finder in sys.meta_path:
    getattr(finder, "_must_rewrite", set()).clear()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark the cases that `slow_cases` names, and those that `quick_cases` does not name, as slow:
    `make test` skips slow tests, and `make test-all` runs them.
    """
    for item in items:
        slow, quick = map(item.get_closest_marker, ("slow_cases", "quick_cases"))
        if (slow is not None and item.callspec.id in slow.args) or (
            quick is not None and item.callspec.id not in quick.args
        ):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session", autouse=True)
def _restore_signals():
    """Restore SIGINT and SIGHUP, which background jobs and nohup ignore; programs that tests
    interrupt would inherit this.
    """
    for sign, handler in (
        (signal.SIGINT, signal.default_int_handler),
        (getattr(signal, "SIGHUP", None), signal.SIG_DFL),
    ):
        if sign is not None and signal.getsignal(sign) is signal.SIG_IGN:
            signal.signal(sign, handler)


_modules_seen = {}  # modules that do not lie in the temporary folder, by name


@pytest.fixture(autouse=True)
def _unload_modules_of_tests(tmp_path_factory):
    """Unload the modules that a test imported from its temporary folder.

    Many tests write a file `mine.py`. A module that stays loaded would be imported instead of the
    next test's file.
    """
    yield
    below = str(tmp_path_factory.getbasetemp())
    for name, module in [
        (name, module)
        for name, module in list(sys.modules.items())
        if _modules_seen.get(name) is not module
    ]:
        if str(getattr(module, "__file__", None)).startswith(below):
            sys.modules.pop(name, None)
        else:
            _modules_seen[name] = module
    sys.path[:] = [place for place in sys.path if not place.startswith(below)]


@pytest.fixture
def refused(capsys):
    """Return a function that runs a command in this process, asserts exit code 2 and one line of
    error, and returns the line.
    """

    def run(*arguments):
        from dpwitness.cli import main

        try:
            code = main(list(arguments))
        except SystemExit as end:  # of the parser of arguments
            code = end.code
        out, err = capsys.readouterr()
        assert (code, out, err.count("\n")) == (2, "", 1), (code, out, err)
        return err

    return run


@dataclass
class Shell:
    """Runner of commands in a temporary folder outside the repository."""

    folder: Path

    def environment(self):
        return {**os.environ, "OPENBLAS_NUM_THREADS": "1", "COLUMNS": "120"}

    def run(self, *command, **environment):
        whole = self.environment() | environment
        return subprocess.run(
            command, cwd=self.folder, env=whole, capture_output=True, text=True, timeout=300
        )

    def start(self, *arguments, **environment):
        """Start ``python -m dpwitness`` in a process group of its own."""
        pipes = {
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "text": True,
            "start_new_session": True,
        }
        command = [sys.executable, "-m", "dpwitness", *arguments]
        return subprocess.Popen(
            command, cwd=self.folder, env=self.environment() | environment, **pipes
        )

    def dpwitness(self, *arguments, piped=None, **environment):
        """Run ``python -m dpwitness`` in a fork of this process, where modules and kernels are
        already loaded; `piped` are the bytes of a pipe at its standard input.
        """
        return _run_in_fork(arguments, self.folder, self.environment() | environment, piped)

    def pytest(self, *arguments):
        """Run pytest with two plugins. If it found them itself, every process would rewrite the
        assertions of dpwitness and hypothesis.
        """
        plugins = ["-p", "no:cacheprovider", "-p", "xdist", "-p", "dpwitness"]
        return self.run(
            sys.executable, "-m", "pytest", *plugins, *arguments, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1"
        )


@pytest.fixture
def shell(tmp_path):
    return Shell(tmp_path)


def _run_in_fork(arguments, folder, environment, piped=None, timeout=300):
    """Run the command line in a fork of this process and return a CompletedProcess."""
    read, write = (None, None) if piped is None else os.pipe()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            code = 70
            try:
                if piped is not None:
                    os.close(write)
                    os.dup2(read, 0)
                    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
                code = _run_command_line(
                    list(map(str, arguments)), folder, environment, out.fileno(), err.fileno()
                )
            finally:
                os._exit(code)
        if piped is not None:
            os.close(read)
            with contextlib.suppress(BrokenPipeError), open(write, "wb") as pipe:
                pipe.write(piped)
        code = _wait_for_child(child, timeout, arguments)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(io.TextIOWrapper(file, encoding="utf-8").read())
        return subprocess.CompletedProcess(["dpwitness", *arguments], code, *texts)


def _wait_for_child(child, timeout, arguments):
    """Return the exit code of a child process. Raise TimeoutExpired if it does not end in time."""
    deadline, pause = time.monotonic() + timeout, 0.001
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise subprocess.TimeoutExpired(arguments, timeout)
        time.sleep(pause)
        pause = min(2 * pause, 0.02)


def _run_command_line(arguments, folder, environment, out, err):
    """Run the command line in this process and return its exit code.

    The process must end afterwards: its streams, environment, warnings and signals are set as in a
    new process.
    """
    atexit._clear()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update({name: os.fspath(value) for name, value in environment.items()})
    sys.path.insert(0, str(folder))
    for descriptor, file in ((1, out), (2, err)):
        os.dup2(file, descriptor)
    sys.stdout = sys.__stdout__ = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(2, "w", encoding="utf-8", buffering=1, closefd=False)  # noqa: SIM115
    signal.signal(signal.SIGINT, signal.default_int_handler)
    logging.root.handlers.clear()
    warnings.resetwarnings()
    warnings.simplefilter("default")
    for category in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
        warnings.simplefilter("ignore", category)
    warnings.showwarning = lambda *details: sys.stderr.write(warnings.formatwarning(*details[:4]))
    sys.argv = ["dpwitness", *arguments]
    from dpwitness.cli import main
    from dpwitness.mechanisms.wrappers.programs.worker_process import close_all

    try:
        code = main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    close_all()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return code
