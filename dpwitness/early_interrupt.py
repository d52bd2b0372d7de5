"""End of a command that Ctrl-C interrupts during its imports, before `interrupts` handles signals.

Imports as little as possible: until the handler is installed, Python shows a traceback.
"""

import os
import signal
import sys

_NO_VERDICT = 3  # as in `exit_codes`, which imports more


def is_command() -> bool:
    """Return whether this process is the command ``dpwitness`` or ``python -m dpwitness``, and not a program that imports dpwitness."""
    name = os.path.basename(sys.argv[0]) if sys.argv else ""
    return name in ("dpwitness", "dpwitness.exe") or (name == "-m" and "dpwitness" in sys.orig_argv)


def end_at_interrupt() -> None:
    """Make Ctrl-C end this process with one line and the exit code of an interrupted command, unless Ctrl-C is ignored."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def _end(sign: int, frame: object) -> None:
    try:
        os.write(2, b"dpwitness: interrupted by SIGINT before the command began: nothing was changed; run the command again\n")
    finally:
        os._exit(_NO_VERDICT)
