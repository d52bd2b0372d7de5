"""Signals that end a command: the first keeps what was measured, the second ends it at once; neither leaves a traceback or a process."""

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

from dpwitness.ending import NO_VERDICT
from dpwitness.executors.pools import HUNG

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Heard:
    count = 0
    last = False
    again = threading.Timer(0.0, int)


def _handle(sign: int, frame: Any) -> None:
    _Heard.count += 1
    if _Heard.count == 1:
        raise KeyboardInterrupt(signal.Signals(sign).name)
    with contextlib.suppress(OSError):
        os.write(2, b"\ndpwitness: interrupted twice, ended at once\n")
    os._exit(NO_VERDICT)  # workers end with their parent


def _unraisable(found: Any) -> None:
    """An interrupt that fell into a destructor or a callback, where it is lost: it is raised again a moment later."""
    if isinstance(found.exc_value, KeyboardInterrupt):
        _Heard.again.cancel()
        _Heard.again = threading.Timer(0.05, _again)
        _Heard.again.daemon = True
        _Heard.again.start()
    else:
        sys.__unraisablehook__(found)


def _again() -> None:
    if not _Heard.last:
        _Heard.count = 0
        os.kill(os.getpid(), signal.SIGINT)


@contextmanager
def heard() -> Iterator[None]:
    """SIGINT, SIGTERM and SIGHUP raise KeyboardInterrupt once. One that was ignored when we started (nohup, a background job) stays so."""
    before = {}
    with contextlib.suppress(ValueError):  # not in the main thread
        for sign in _SIGNALS:
            if signal.getsignal(sign) is not signal.SIG_IGN:
                before[sign] = signal.signal(sign, _handle)
    _Heard.count, hook = 0, sys.unraisablehook
    sys.unraisablehook = _unraisable
    try:
        yield
    finally:
        if not _Heard.last:
            sys.unraisablehook = hook
            for sign, handler in before.items():
                signal.signal(sign, handler)


def last(code: int) -> int:
    """From now on a signal ends this program at once, with `code`: all has been said, and the interpreter only cleans up."""
    if HUNG[0]:
        os._exit(code)
    _Heard.last = True
    _Heard.again.cancel()
    exec("")  # forgets an interrupt that fell into another `exec`, after which CPython would end itself by SIGINT
    with contextlib.suppress(ValueError):
        for sign in _SIGNALS:
            if signal.getsignal(sign) is not signal.SIG_IGN:
                signal.signal(sign, lambda *_: os._exit(code))
    atexit.register(_deaf)
    return code


def _deaf() -> None:
    """The interpreter's last moments, in which it gives handlers back: a signal would take the exit code along."""
    for sign in _SIGNALS:
        signal.signal(sign, signal.SIG_IGN)
