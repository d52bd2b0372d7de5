"""``dpwitness certify``: ``audit --white-box`` as a command."""

from __future__ import annotations

from dpwitness.commands import audit
from dpwitness.commands.common import CONFIDENCE, SECONDS, Command, accepting, detail, interpreter, running, subject

run = audit.run


def arguments(command: Command) -> None:
    """Declare the command."""
    certify = command("certify", "enclose the exact privacy loss of a pair from the density of the outputs (audit --white-box)")
    subject(certify)
    certify.add_argument("--confidence", type=CONFIDENCE, default=0.99, metavar="C", help="of all that is sampled; default 0.99")
    certify.add_argument(
        "--time-limit", type=SECONDS, default=300.0, metavar="SECONDS", help="that one chunk of runs may take; default 300"
    )
    interpreter(certify)
    accepting(certify)
    running(certify)
    detail(certify)
    idle = ("program", "cwd", "text_runs", "dsn", "query", "table", "setup", "domain", "search_seconds", "store", "extend", "seconds")
    off = dict.fromkeys(("in_process", "search", "bits", "text"), False)
    certify.set_defaults(white_box=True, stop="gross", scores=[], **dict.fromkeys(idle), **off)
