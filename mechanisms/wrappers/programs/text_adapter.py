"""Adapter that implements the protocol for a program without it: starts the program per batch or
per run, and reads one output per line.

Uses the standard library only; started as ``python text_adapter.py batch|one PROGRAM
ARGUMENTS...``. ``{size}``, ``{seed}`` and ``{dataset}`` in the arguments are replaced, and the
environment has DPWITNESS_SIZE, DPWITNESS_SEED and DPWITNESS_DATASET. A line with one number is read
as this number, a line of several numbers (separated by blanks or commas) as a list, and any other
line as a text. Each line is read independently of the lines around it. A nonzero exit code becomes
an exception such as ``Exit3``; a signal also ends this process.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from typing import Any

SEEDS = 2**53  # whole numbers below this one are exact in every language


def main() -> None:
    """Serve requests on standard input until it ends."""
    one, command = sys.argv[1] == "one", sys.argv[2:]
    name = os.path.basename(command[0])
    named = re.findall(r"\{(size|seed|dataset)\}", " ".join(command))
    _write_lines(
        {
            "protocol": 1,
            "name": name,
            "seedable": not named or "seed" in named,
            "datasets": ["json"],
            "outputs": ["json"],
        }
    )
    datasets: dict[int, str] = {}
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if request["op"] == "dataset":
            datasets[request["dataset"]] = json.dumps(request["value"])
            continue
        low, high, *_ = request["seed"]
        size, dataset = request["size"], datasets[request["dataset"]]
        outputs: list[Any] = []
        for i in range(size if one else 1):
            seed = (low + (high << 32) + 0x9E3779B97F4A7 * i) % SEEDS
            found = _run_program(command, 1 if one else size, seed, dataset)
            if isinstance(found, dict):
                _write_lines(found)
                break
            outputs += map(_parse_line, found)
        else:
            _write_lines({"kind": "json", "rows": size}, *outputs)


def _run_program(
    command: list[str], size: int, seed: int, dataset: str
) -> list[str] | dict[str, Any]:
    """Run the program and return its `size` output lines, or a message about an exception or a
    failure.
    """
    values = {"size": str(size), "seed": str(seed), "dataset": dataset}
    # most bytes of an argument or an environment variable on Linux
    if len(dataset.encode()) > 2**17 - 1:
        return {
            "failed": f"a dataset of {len(dataset)} characters does not fit into an argument: the "
            "program must speak the protocol"
        }
    filled = [re.sub(r"\{(size|seed|dataset)\}", lambda m: values[m[1]], part) for part in command]
    environment = dict(
        os.environ, **{f"DPWITNESS_{key.upper()}": value for key, value in values.items()}
    )
    try:
        ran = subprocess.run(
            filled, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=environment, check=False
        )
    except OSError as error:
        return {"failed": f"{command[0]} cannot be started: {error.strerror}"}
    if ran.returncode < 0:
        with contextlib.suppress(OSError):  # the action of SIGKILL cannot be set
            signal.signal(-ran.returncode, signal.SIG_DFL)
        os.kill(os.getpid(), -ran.returncode)
    if ran.returncode:
        return {"raised": f"Exit{ran.returncode}"}
    text = ran.stdout.decode(errors="backslashreplace").replace("\r\n", "\n")
    lines = text.removesuffix("\n").split("\n") if text else []
    if len(lines) != size:
        name = os.path.basename(command[0])
        return {"failed": f"{name} printed {len(lines)} lines for size = {size}"}
    return lines


def _parse_line(line: str) -> Any:
    """Return the output of a line, which depends on this line only, so that equal lines are equal
    outputs.
    """
    if not line.isascii():  # digits of other scripts are text
        return line
    try:
        numbers = [
            int(part) if re.fullmatch(r"[+-]?\d+", part) else float(part.replace("_", "no number"))
            for part in re.split(r"[\s,]+", line.strip(", \t\r\f\v"))
        ]
    except ValueError:
        return line
    return numbers[0] if len(numbers) == 1 else numbers


def _write_lines(*lines: Any) -> None:
    """Write messages to standard output."""
    sys.stdout.write("".join(json.dumps(line) + "\n" for line in lines))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
