"""Signal handling of commands: the first signal stops the run with its results so far, the second
exits at once.

Neither leaves a traceback or a running process.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dpwitness.exit_codes import NO_VERDICT

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _SignalState:
    """Signals received so far, and a timer that repeats a lost interrupt."""

    count = 0
    last = False
    again = threading.Timer(0.0, int)


def _on_signal(sign: int, frame: Any) -> None:
    """Raise KeyboardInterrupt at the first signal and exit the process at the second."""
    _SignalState.count += 1
    if _SignalState.count == 1:
        raise KeyboardInterrupt(signal.Signals(sign).name)
    with contextlib.suppress(OSError):
        os.write(2, b"\ndpwitness: interrupted twice, ended at once\n")
    os._exit(NO_VERDICT)  # workers exit when their parent does


def _repeat_lost_interrupt(unraisable: Any) -> None:
    """Repeat an interrupt that was raised in a destructor or a callback, where Python drops
    exceptions.
    """
    if isinstance(unraisable.exc_value, KeyboardInterrupt):
        _SignalState.again.cancel()
        _SignalState.again = threading.Timer(0.05, _resend_interrupt)
        _SignalState.again.daemon = True
        _SignalState.again.start()
    else:
        sys.__unraisablehook__(unraisable)


def _resend_interrupt() -> None:
    """Send SIGINT to this process, unless the command has ended."""
    if not _SignalState.last:
        _SignalState.count = 0
        os.kill(os.getpid(), signal.SIGINT)


@contextmanager
def handled_signals() -> Iterator[None]:
    """Raise KeyboardInterrupt at the first SIGINT, SIGTERM or SIGHUP in the block.

    A signal that was ignored when the process started (nohup, a background job) stays ignored.
    """
    before = {}
    with contextlib.suppress(ValueError):  # not in the main thread
        for sign in _SIGNALS:
            if signal.getsignal(sign) is not signal.SIG_IGN:
                before[sign] = signal.signal(sign, _on_signal)
    _SignalState.count, hook = 0, sys.unraisablehook
    sys.unraisablehook = _repeat_lost_interrupt
    try:
        yield
    finally:
        if not _SignalState.last:
            sys.unraisablehook = hook
            for sign, handler in before.items():
                signal.signal(sign, handler)


def finish(code: int) -> int:
    """Make any later signal exit this process at once with `code`, and return `code`.

    All output is written by now; only the interpreter's cleanup remains.
    """
    _SignalState.last = True
    _SignalState.again.cancel()
    # clears an interrupt inside an earlier `exec`, which CPython would turn into an exit by SIGINT
    exec("")
    with contextlib.suppress(ValueError):
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
