"""Compare the golden runs of two commits on this machine, to 12 digits: ``python
tests/contract/compare_commits.py OLD NEW [PART]``.

Each commit is installed into a folder, without its dependencies, and runs the cases of this file's
folder; PART is a part of their names. Learned events depend on the processor and on its linear
algebra in the last digits, so a stored file cannot decide this on every machine.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

CASES = Path(__file__).with_name("golden_cases.py")
# fields of a kind of result that have another name now
RENAMED = {("sensitivity", "trace"): "progress"}


def summaries(commit: str, part: str, folder: Path) -> dict:
    """Return the summaries of all golden runs by the code of a commit."""
    source, packages, written = folder / "source", folder / "packages", folder / "summaries.json"
    source.mkdir(parents=True)
    archive = subprocess.run(
        ["git", "archive", commit], check=True, capture_output=True, cwd=CASES.parents[2]
    ).stdout
    subprocess.run(["tar", "-x", "-C", source], check=True, input=archive)
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--target",
        packages,
        source,
    ]
    subprocess.run(command, check=True)
    environment = {**os.environ, "PYTHONPATH": str(packages), "OPENBLAS_NUM_THREADS": "1"}
    subprocess.run([sys.executable, CASES, written, part], check=True, env=environment, cwd=folder)
    return json.loads(written.read_text(encoding="utf-8"))


def differences(old: object, new: object, place: str = "") -> list[str]:
    """Return a line for each leaf that differs."""
    if isinstance(old, dict) and isinstance(new, dict):
        old, new = (
            {RENAMED.get((side.get("kind"), key), key): value for key, value in side.items()}
            for side in (old, new)
        )
        keys = sorted(old.keys() | new.keys())
        return [
            line
            for key in keys
            for line in differences(old.get(key), new.get(key), f"{place} {key}")
        ]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [
            line
            for k, (a, b) in enumerate(zip(old, new, strict=True))
            for line in differences(a, b, f"{place}[{k}]")
        ]
    return [] if old == new and type(old) is type(new) else [f"{place}: {old!s:.60} -> {new!s:.60}"]


def main(old: str, new: str, part: str = "") -> int:
    """Print every difference, and return the exit code: 1 if there are differences."""
    with tempfile.TemporaryDirectory() as folder:
        before, after = (
            summaries(commit, part, Path(folder, str(k))) for k, commit in enumerate((old, new))
        )
    changed = {
        name: differences(before.get(name), after.get(name))
        for name in sorted(before.keys() | after.keys())
    }
    for name, lines in changed.items():
        shown = lines[:5] + ([f": {len(lines) - 5} more"] if len(lines) > 5 else [])
        for line in shown:
            print(f"{name}{line}")
    print(f"{sum(not lines for lines in changed.values())} of {len(changed)} golden runs are equal")
    return int(any(changed.values()))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
