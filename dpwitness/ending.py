"""How a command ends: one line for whatever stops it, a documented exit code, and output that never takes the verdict along."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dpwitness.colors import CODES, NO_CODES
from dpwitness.mechanisms.terms.validation import InvalidArgument, said

OK, VIOLATED, USAGE, NO_VERDICT = 0, 1, 2, 3

TRACEBACK = "DPWITNESS_TRACEBACK"

# What a terminal would obey: control characters, but for the three that lay out lines, and marks that turn the direction of text.
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t\r"}
_CONTROLS |= {code: f"\\u{code:04x}" for code in (0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))}


class Stream(io.TextIOBase):
    """A standard stream that cannot fail: once it cannot be written, what follows is dropped and `error` says why.

    Control characters are shown, not sent; the codes that colour our own text come from `show` alone.
    A reader that has seen enough (``| head -1``) changes nothing in what is computed.
    """

    colored = False  # until a command says otherwise
    quiet = False  # whether `announce` and `bar` show nothing

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.error: OSError | None = None if inner is not None else BrokenPipeError("closed")
        with contextlib.suppress(AttributeError, ValueError, OSError):
            inner.reconfigure(errors="backslashreplace")  # a name that the locale cannot write

    def write(self, text: str) -> int:
        self._do(lambda: self.inner.write(text.translate(_CONTROLS)))
        return len(text)

    def show(self, text: str) -> None:
        """A line with marks (`colors`): verdicts in colour, or just without them."""
        self._do(lambda: self.inner.write(f"{text}\n".translate(_CONTROLS | (CODES if self.colored else NO_CODES))))
        self.flush()

    def flush(self) -> None:
        self._do(lambda: self.inner.flush())

    def _do(self, action: Callable[[], Any]) -> None:
        if self.error is not None:
            return
        try:
            action()
        except (OSError, ValueError) as error:
            self.error = error if isinstance(error, OSError) else BrokenPipeError(str(error))
            with contextlib.suppress(OSError, ValueError):  # the interpreter's last flush must be silent
                os.dup2(os.open(os.devnull, os.O_WRONLY), self.inner.fileno())

    def isatty(self) -> bool:
        return self.error is None and bool(self.inner.isatty())

    def fileno(self) -> int:
        return int(self.inner.fileno())

    def writable(self) -> bool:
        return True


@contextmanager
def streams() -> Iterator[tuple[Stream, Stream]]:
    """Standard output and error as `Stream`; a closed descriptor is opened on nothing, lest a file of ours takes its number."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    before = sys.stdout, sys.stderr
    out, err = (found if isinstance(found, Stream) else Stream(found) for found in before)
    sys.stdout, sys.stderr = out, err
    try:
        yield out, err
    finally:
        out.flush()
        err.flush()
        sys.stdout, sys.stderr = before


@contextmanager
def apart() -> Iterator[None]:
    """What a mechanism prints goes to standard error: on standard output stand results alone. Processes made meanwhile inherit that."""
    out, saved = sys.stdout, None
    out.flush()
    with contextlib.suppress(OSError, ValueError, AttributeError):
        if out.fileno() == 1:
            saved = os.dup(1)
            os.dup2(2, 1)
    sys.stdout = sys.stderr
    try:
        yield
    finally:
        sys.stdout = out
        if saved is not None:
            os.dup2(saved, 1)
            os.close(saved)


def show(text: str, stream: Any = None) -> None:
    """Print text with marks (`colors`), on standard output by default; what is no `Stream` gets it without them."""
    chosen = sys.stdout if stream is None else stream
    if isinstance(chosen, Stream):
        chosen.show(text)
    else:
        print(text.translate(NO_CODES), file=chosen, flush=True)


def guarded(name: str, run: Callable[[], int]) -> int:
    """The exit code of `run`, whatever it raises: 2 for what was asked or could not be read or written, 3 for anything else."""
    with streams() as (out, _):
        try:
            code = run()
            out.flush()
            if out.error is None or isinstance(out.error, BrokenPipeError):
                return code
            _line(name, f"standard output could not be written: {out.error.strerror}")
            return after(code)
        except InvalidArgument as error:
            _trace(error)
            _line(name, str(error).removeprefix(f"{name}: "))
            return USAGE
        except KeyboardInterrupt as error:
            _line(name, f"interrupted{_signal(error)} before it had a result: every report stays as it was; run the same command again")
            return NO_VERDICT
        except OSError as error:
            _trace(error)
            _line(name, said(error))
            return USAGE
        except BaseException as error:
            _trace(error)
            _line(name, f"stopped by an error that it does not know: {said(error)} ({TRACEBACK}=1 shows where)")
            return NO_VERDICT


def _signal(error: KeyboardInterrupt) -> str:
    """Name the signal behind an interrupt, where `interrupts` knows it."""
    return f" by {error.args[0]}" if error.args else ""


def attempt(what: str, write: Callable[[], Path]) -> tuple[Path | None, bool]:
    """The path that `write` returns, and whether it failed, which is told: a verdict is not lost with its report."""
    try:
        return write(), False
    except KeyboardInterrupt as error:
        _line("", f"{what} was not written: interrupted{_signal(error)}")
    except Exception as error:
        _trace(error)
        _line("", f"{what} could not be written: {error if isinstance(error, InvalidArgument) else said(error)}")
    return None, True


def after(code: int, failed: bool = True) -> int:
    """The exit code where something could not be written: a violation stays one."""
    return USAGE if failed and code != VIOLATED else code


def _line(name: str, text: str) -> None:
    print(f"dpwitness{' ' + name if name else ''}: {' '.join(text.split())}", file=sys.stderr)


def _trace(error: BaseException) -> None:
    if os.environ.get(TRACEBACK, "") not in ("", "0"):
        with contextlib.suppress(Exception):
            traceback.print_exception(error)
