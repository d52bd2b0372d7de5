"""Speaks the protocol for a program that speaks none: starts it for each batch, or for each run, and reads one output a line.

Stands alone (standard library); started as ``python textual.py batch|one PROGRAM ARGUMENTS...``. ``{size}``, ``{seed}`` and ``{dataset}``
in the arguments are replaced, and the environment holds DPWITNESS_SIZE, DPWITNESS_SEED and DPWITNESS_DATASET. A line that is a number is
a number, one of several numbers (between blanks or commas) a list of them, any other a text, by itself and whatever stands around it. An
exit code other than 0 is an exception, ``Exit3``; a signal ends this process too.
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

SEEDS = 2**53  # whole numbers that every language reads exactly
_ARGUMENT = 2**17 - 1  # bytes of an argument, or of a variable, that Linux passes on


def main() -> None:
    """Serve requests on standard input until it ends."""
    one, command = sys.argv[1] == "one", sys.argv[2:]
    name, named = os.path.basename(command[0]), re.findall(r"\{(size|seed|dataset)\}", " ".join(command))
    _say({"protocol": 1, "name": name, "seedable": not named or "seed" in named, "datasets": ["json"], "outputs": ["json"]})
    datasets: dict[int, str] = {}
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        if asked["op"] == "dataset":
            datasets[asked["dataset"]] = json.dumps(asked["value"])
            continue
        words = asked["seed"]
        seed = (words[0] + (words[1] << 32)) % SEEDS
        size = asked["size"]
        outputs: list[Any] = []
        for i in range(size if one else 1):
            found = _run(command, 1 if one else size, (seed + 0x9E3779B97F4A7 * i) % SEEDS, datasets[asked["dataset"]])
            if isinstance(found, dict):
                _say(found)
                break
            outputs += map(_value, found)
        else:
            _say({"kind": "json", "rows": size}, *outputs)


def _run(command: list[str], size: int, seed: int, dataset: str) -> list[str] | dict[str, Any]:
    """The `size` lines that it prints, or what it raises, or why it failed."""
    values = {"size": str(size), "seed": str(seed), "dataset": dataset}
    if len(dataset.encode()) > _ARGUMENT:
        return {"failed": f"a dataset of {len(dataset)} characters does not fit into an argument: the program must speak the protocol"}
    filled = [re.sub(r"\{(size|seed|dataset)\}", lambda m: values[m[1]], part) for part in command]
    environment = dict(os.environ, **{f"DPWITNESS_{key.upper()}": value for key, value in values.items()})
    try:
        ran = subprocess.run(filled, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=environment, check=False)
    except OSError as error:
        return {"failed": f"{command[0]} cannot be started: {error.strerror}"}
    if ran.returncode < 0:
        with contextlib.suppress(OSError):  # of SIGKILL there is nothing to set
            signal.signal(-ran.returncode, signal.SIG_DFL)
        os.kill(os.getpid(), -ran.returncode)
    if ran.returncode:
        return {"raised": f"Exit{ran.returncode}"}
    text = ran.stdout.decode(errors="backslashreplace").replace("\r\n", "\n")
    lines = text.removesuffix("\n").split("\n") if text else []
    return lines if len(lines) == size else {"failed": f"{os.path.basename(command[0])} printed {len(lines)} lines for size = {size}"}


def _value(line: str) -> Any:
    """A line as an output: by its own form alone, so that equal lines are equal outputs."""
    parts = [part for part in re.split(r"[\s,]+", line.strip()) if part]
    try:
        numbers = [int(part) if re.fullmatch(r"[+-]?\d+", part) else float(part.replace("_", "no number")) for part in parts]
    except ValueError:
        return line
    return numbers[0] if len(numbers) == 1 else numbers or line


def _say(*lines: Any) -> None:
    sys.stdout.write("".join(json.dumps(line) + "\n" for line in lines))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
