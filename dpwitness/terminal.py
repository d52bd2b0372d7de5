"""Terminal of a command: exit codes, one-line errors, output streams that never raise, colors of
verdicts, signals that end a run, and progress bars.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import signal
import sys
import textwrap
import time
import traceback
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from io import TextIOBase
from pathlib import Path
from typing import Any, Self, TextIO

from dpwitness import reports
from dpwitness.core.values.validation import InvalidArgument, error_text

OK, VIOLATED, USAGE, NO_VERDICT = 0, 1, 2, 3

TRACEBACK = "DPWITNESS_TRACEBACK"

# Characters that a terminal interprets: control characters except for newline, tab and carriage
# return, and marks of text direction.
_ESCAPES = {
    **{
        code: f"\\x{code:02x}"
        for code in (*range(32), *range(127, 160))
        if chr(code) not in "\n\t\r"
    },
    **{
        code: f"\\u{code:04x}"
        for code in (0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
    },
}


class Stream(TextIOBase):
    """Standard stream that never raises: after a failed write, later output is dropped and `error`
    holds the reason.

    Control characters are escaped. Color codes come from `show` only. On a terminal, long lines
    break at words.
    A closed pipe (``| head -1``) does not change the computation.
    """

    colored = False  # the command line sets it
    wraps = True  # False for JSON, which a program reads
    quiet = False  # whether `announce` and `bar` show nothing

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.error: OSError | None = None if inner is not None else BrokenPipeError("closed")
        with suppress(AttributeError, ValueError, OSError):
            # names may hold characters outside the locale's encoding
            inner.reconfigure(errors="backslashreplace")

    def write(self, text: str) -> int:
        self._try(lambda: self.inner.write(self._lines(text)))
        return len(text)

    def _lines(self, text: str) -> str:
        """Return a text with escaped control characters, and with the line breaks of a terminal. A
        line that is drawn again and again has no other breaks.
        """
        escaped = text.translate(_ESCAPES)
        if not self.wraps or "\r" in text or not self.isatty():
            return escaped
        return wrapped(escaped, shutil.get_terminal_size().columns)

    def show(self, text: str) -> None:
        """Write a line with verdict marks (`mark_verdict`) as color codes, or without color if
        `colored` is False.
        """
        codes = CODES if self.colored else NO_CODES
        self._try(lambda: self.inner.write(self._lines(f"{text}\n").translate(codes)))
        self.flush()

    def flush(self) -> None:
        self._try(lambda: self.inner.flush())  # noqa: PLW0108 - without a terminal, the stream may have no flush

    def _try(self, action: Callable[[], Any]) -> None:
        if self.error is not None:
            return
        try:
            action()
        except (OSError, ValueError) as error:
            self.error = error if isinstance(error, OSError) else BrokenPipeError(str(error))
            # or else the interpreter reports an error at its final flush
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), self.inner.fileno())

    def isatty(self) -> bool:
        closed = self.error is not None or getattr(self.inner, "closed", False)
        return not closed and bool(self.inner.isatty())

    def fileno(self) -> int:
        return int(self.inner.fileno())

    def writable(self) -> bool:
        return True


_COMMAND = re.compile(r"(?<=: )dpwitness .*|`[^`]*`")


def wrapped(text: str, width: int) -> str:
    """Return a text whose long lines break at words, but not inside a command that a reader may
    copy. The further lines of a row are indented to its last column in the left half.

    Examples
    --------
    >>> print(wrapped("  next       raise --trials: these runs are too few", 40))
      next       raise --trials: these runs
                 are too few
    """
    lines = []
    for line in text.split("\n"):
        columns = (found.end() for found in re.finditer(r" {2,}(?=\S)", line[: width // 2 + 1]))
        pieces = textwrap.wrap(
            _COMMAND.sub(lambda found: found[0].replace(" ", "\0"), line),
            width,
            subsequent_indent=" " * max(columns, default=0),
            break_long_words=False,
            break_on_hyphens=False,
            replace_whitespace=False,
            expand_tabs=False,
        )
        lines += [line] if len(line) <= width else [piece.replace("\0", " ") for piece in pieces]
    return "\n".join(lines)


@contextmanager
def streams() -> Iterator[tuple[Stream, Stream]]:
    """Replace standard output and error by `Stream` objects.

    Closed descriptors are opened on the null device. Otherwise a file that is opened later would
    get the descriptor of a standard stream.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    before = sys.stdout, sys.stderr
    out, err = (current if isinstance(current, Stream) else Stream(current) for current in before)
    sys.stdout, sys.stderr = out, err
    try:
        yield out, err
    finally:
        out.flush()
        err.flush()
        sys.stdout, sys.stderr = before


@contextmanager
def redirected_stdout() -> Iterator[None]:
    """Redirect standard output to standard error, so that a mechanism's prints do not mix with
    results.

    Processes that start in the block inherit the redirection.
    """
    out, saved = sys.stdout, None
    out.flush()
    with suppress(OSError, ValueError, AttributeError):
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
    """Print text with verdict marks (`mark_verdict`), by default on standard output.

    A stream that is not a `Stream` gets the text without marks.
    """
    chosen = sys.stdout if stream is None else stream
    if isinstance(chosen, Stream):
        chosen.show(text)
    else:
        print(text.translate(NO_CODES), file=chosen, flush=True)


def guarded(name: str, run: Callable[[], int]) -> int:
    """Run a command and return its exit code, or the exit code of its error.

    The exit code is 2 for invalid arguments and for files that could not be read or written, and 3
    for any other error.
    """
    with streams() as (out, _):
        try:
            code = run()
            out.flush()
            if out.error is None or isinstance(out.error, BrokenPipeError):
                return code
            text = f"standard output could not be written: {out.error.strerror}"
            code = code_after_write(code)
        except KeyboardInterrupt as error:
            code, text = (
                NO_VERDICT,
                (
                    f"interrupted{_signal_name(error)} before there was a result: existing "
                    "reports are unchanged; run the command again"
                ),
            )
        except BaseException as error:
            _print_traceback(error)
            code, text = USAGE, error_text(error)
            if isinstance(error, InvalidArgument):
                text = str(error).removeprefix(f"{name}: ")
            elif not isinstance(error, OSError):
                code = NO_VERDICT
                text = (
                    f"stopped by an unexpected error: {text} (set {TRACEBACK}=1 for the traceback)"
                )
        print_error(name, text)
        return code


def _signal_name(error: KeyboardInterrupt) -> str:
    """Return " by SIGNAL" if the signal that caused the interrupt is known, else ""."""
    return f" by {error.args[0]}" if error.args else ""


def try_to_write(what: str, write: Callable[[], Path | None]) -> tuple[Path | None, bool]:
    """Call `write` and return its path and whether it failed.

    A failure is printed and not raised, so that the verdict is still reported. A report whose JSON
    document and witnesses are complete has not failed; the path is that of the document.
    """
    try:
        return write(), False
    except KeyboardInterrupt as error:
        print_error("", f"{what} was not written: interrupted{_signal_name(error)}")
    except reports.IncompleteReport as error:
        _print_traceback(error)
        print_error("", str(error))
        return error.path, False
    except Exception as error:
        _print_traceback(error)
        why = error if isinstance(error, InvalidArgument) else error_text(error)
        print_error("", f"{what} could not be written: {why}")
    return None, True


def write_report_files(folder: str | None, write: Callable[[str], Path | None], out: Any) -> bool:
    """Write a report into `folder`, if there is one, print its path on `out`, and return whether
    writing failed.
    """
    path, write_failed = (
        (None, False) if folder is None else try_to_write("report", lambda: write(folder))
    )
    if path is not None and out is not None:
        print(f"report: {path}", file=out)
    return write_failed


def worst(codes: Collection[int]) -> int:
    """Return the exit code of several results: violated before USAGE before no verdict before
    OK.
    """
    return next((code for code in (VIOLATED, USAGE, NO_VERDICT) if code in codes), OK)


def code_after_write(code: int, failed: bool = True) -> int:
    """Return the exit code after a write error: a violation keeps its code, any other code becomes
    USAGE.
    """
    return USAGE if failed and code != VIOLATED else code


def print_error(name: str, text: str) -> None:
    """Print an error on standard error, in one line."""
    print(f"dpwitness{' ' + name if name else ''}: {' '.join(text.split())}", file=sys.stderr)


def _print_traceback(error: BaseException) -> None:
    """Print the traceback if the environment variable DPWITNESS_TRACEBACK is set."""
    if os.environ.get(TRACEBACK, "") not in ("", "0"):
        with suppress(Exception):
            traceback.print_exception(error)


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _SignalState:
    """Number of signals received so far, and whether the command has ended."""

    count = 0
    last = False


def _on_signal(sign: int, frame: Any) -> None:
    """Raise KeyboardInterrupt at the first signal and exit the process at the second."""
    _SignalState.count += 1
    if _SignalState.count == 1:
        raise KeyboardInterrupt(signal.Signals(sign).name)
    with suppress(OSError):
        os.write(2, b"\ndpwitness: interrupted twice, ended at once\n")
    os._exit(NO_VERDICT)  # workers exit when their parent does


@contextmanager
def handled_signals() -> Iterator[None]:
    """Raise KeyboardInterrupt at the first SIGINT, SIGTERM or SIGHUP in the block.

    A signal that was ignored when the process started (nohup, a background job) stays ignored.
    """
    before = {}
    with suppress(ValueError):  # not in the main thread
        for sign in _SIGNALS:
            if signal.getsignal(sign) is not signal.SIG_IGN:
                before[sign] = signal.signal(sign, _on_signal)
    _SignalState.count = 0
    try:
        yield
    finally:
        if not _SignalState.last:
            for sign, handler in before.items():
                signal.signal(sign, handler)


def finish(code: int) -> int:
    """Make any later signal exit this process at once with `code`, and return `code`.

    All output is written by now; only the interpreter's cleanup remains.
    """
    _SignalState.last = True
    # clears an interrupt inside an earlier `exec`, which CPython would turn into an exit by SIGINT
    exec("")
    with suppress(ValueError):
        for sign in _SIGNALS:
            if signal.getsignal(sign) is not signal.SIG_IGN:
                signal.signal(sign, lambda *_: os._exit(code))
    atexit.register(_ignore_signals)
    return code


def _ignore_signals() -> None:
    """Ignore signals during interpreter shutdown, where Python restores default handlers and a
    signal would change the exit code.
    """
    for sign in _SIGNALS:
        signal.signal(sign, signal.SIG_IGN)


COLOR_CHOICES = ("auto", "always", "never")

_STYLES = {
    "VIOLATED": "1;31",
    "SUSPECT": "1;33",
    "ERROR": "33",
    "INCONCLUSIVE": "33",
    "NOT REFUTED": "1",
    "SUPPORTED": "32",
    "CERTIFIED": "32",
}
_MARKS = {verdict: chr(0xF8D0 + i) for i, verdict in enumerate(_STYLES)}
_END_MARK = chr(0xF8CF)
CODES = {ord(_END_MARK): "\x1b[0m"} | {
    ord(mark): f"\x1b[{_STYLES[verdict]}m" for verdict, mark in _MARKS.items()
}
NO_CODES = dict.fromkeys(CODES, "")
_VERDICT = re.compile(rf"(?:{'|'.join(_STYLES)})\b")


def marked(text: str, verdict: str) -> str:
    """Return text between the start and end marks of a verdict."""
    return f"{_MARKS[verdict]}{text}{_END_MARK}"


def mark_verdict(text: str, at: int = 0) -> str:
    """Mark the verdict at index `at` of a text; the text is unchanged if there is none.

    Examples
    --------
    >>> mark_verdict("NOT REFUTED: no violation").translate(CODES)
    '\\x1b[1mNOT REFUTED\\x1b[0m: no violation'
    """
    found = _VERDICT.match(text, at)
    return f"{text[:at]}{marked(found[0], found[0])}{text[found.end() :]}" if found else text


def wanted(choice: str, stream: TextIOBase) -> bool:
    """Return whether to write color codes.

    The choice "auto" means yes on a terminal that supports colors, unless NO_COLOR
    (https://no-color.org) is set.
    """
    if choice != "auto":
        return choice == "always"
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


class Line:
    """One line of a terminal that is drawn again and again."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._length = stream, 0

    def draw(self, text: str, end: str = "") -> None:
        """Replace the drawn text by another."""
        self._stream.write("\r" + text.ljust(self._length) + end)
        self._stream.flush()
        self._length = len(text)

    def close(self) -> None:
        """Erase the line."""
        if self._length:
            self.draw("", "\r")


class Progress:
    """Progress callback that draws a bar with rate and remaining time on one line of a stream, at
    most ten times a second. Without a stream it draws nothing.

    `close`, or the end of a ``with`` block, erases the bar.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self.line = None if stream is None else Line(stream)
        self._drawn_at = time.monotonic()
        # time and count of the first call, so that the rate excludes start-up
        self._first: tuple[float, int] | None = None
        self._bound = ""

    def interim_bound(self, symbol: str, bound: float) -> None:
        """Record the lower bound of the latest interim analysis, to be drawn with the progress."""
        self._bound = f"  {symbol} > {bound:.3g} so far"

    def __call__(self, done: int, planned: int) -> None:
        now = time.monotonic()
        if self.line is None or now - self._drawn_at < 0.1:
            return
        self._drawn_at = now
        since, before = self._first = self._first or (now, done)
        rate = (done - before) / max(now - since, 1e-9)
        counts = (f"{n:,}" if n < 10**7 else f"{n:.3g}" for n in (done, planned))
        share = min(1.0, done / max(planned, 1))
        status = f" {share:4.0%}  {' of '.join(counts)}"
        # after a second, the rate is stable enough to estimate the remaining time
        if rate > 0 and now - since >= 1.0:
            left = timedelta(seconds=round(max((planned - done) / rate, 0.0)))
            status += f"  {rate:.3g} runs/s  {left} left"
        room = shutil.get_terminal_size((80, 24)).columns - 1
        if len(status) + len(self._bound) <= room:
            status += self._bound
        width = min(30, room - len(status) - 2)
        full = round(share * width)
        drawn = f"[{'#' * full}{'.' * (width - full)}]" if width > 2 else ""
        self.line.draw(f"{drawn}{status}"[:room])

    def close(self) -> None:
        """Erase the bar."""
        if self.line is not None:
            self.line.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def bar() -> Iterator[Progress | None]:
    """Yield a progress bar on standard error, erased at the end; None if standard error is not a
    terminal, or with ``--quiet``.
    """
    with progress_bar() as progress:
        yield None if progress.line is None else progress


def progress_bar() -> Progress:
    """Return a progress callback for the ``progress=`` argument of `audit` and other entry points.

    On a terminal and in a notebook the callback draws a bar on one line, and elsewhere nothing.
    `close`, or the end of a ``with`` block, erases the bar.

    Returns
    -------
    Progress
        A callable that takes the number of finished and of planned runs.

    Examples
    --------
    >>> from dpwitness import audit, mechanisms
    >>> with progress_bar() as shown:
    ...     result = audit(mechanisms.Laplace(epsilon=1.0), trials=20_000, progress=shown)
    """
    ipython = sys.modules.get("IPython")  # a notebook has imported it already
    shell = ipython.get_ipython() if ipython is not None else None
    in_notebook = shell is not None and "text/html" in shell.display_formatter.active_types
    on_terminal = sys.stderr.isatty() and not _is_quiet()
    return Progress(sys.stderr if in_notebook or on_terminal else None)


def _is_quiet() -> bool:
    return bool(getattr(sys.stderr, "quiet", False))


def announce(line: str) -> None:
    """Print a line on standard error, also if standard error is not a terminal; print nothing with
    ``--quiet``.
    """
    if not _is_quiet():
        print(reports.plain(line), file=sys.stderr, flush=True)
