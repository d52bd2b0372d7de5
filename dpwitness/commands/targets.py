"""``dpwitness targets``: environments of third-party libraries, and new target files."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from dpwitness.clone import from_clone
from dpwitness.commands import options as opts
from dpwitness.commands.common import print_json
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.terminal import NO_VERDICT, OK

TEMPLATE = '''"""A target file: runs in any interpreter that has NumPy and the library under test."""
import numpy as np


def noisy_sum(dataset, size, rng):
    """Return noisy sums of the records, clipped to [0, 1]: `size` independent runs, one output each."""
    noisy = np.clip(np.nan_to_num(dataset), 0, 1).sum() + rng.laplace(0.0, 1.0, size)
    return np.round(noisy * 1024) / 1024  # without rounding to a grid, the low bits of the sum leak


noisy_sum.claim = "pure:1"  # or approx:EPS,DELTA, zcdp:RHO, rdp:ALPHA,EPS, gdp:MU and others
noisy_sum.domain = {"kind": "Records", "size": 3, "low": 0.0, "high": 1.0, "relation": "replace-one"}

# Further attributes of a target:
# noisy_sum.domain = {"kind": "Table", "columns": {"age": (0, 120), "city": ["Ulm", "Bern"]}, "user": "user"}
#     a pandas frame whose neighbors differ in all rows of one user; for all kinds and their keys: dpwitness list domains
# noisy_sum.trials = 20_000          default number of runs of an audit
# noisy_sum.batch = 64               maximum number of runs per call, for slow targets
# noisy_sum.seeded = False           the library cannot be seeded: counts are not reproducible
# noisy_sum.expected_failures = {"check_...": "why"}   checks that are known to fail
# noisy_sum.expected_findings = {"kind": "why"}        findings of a trace that are not faults
# noisy_sum.primitives = {"module.add_noise": {"law": "laplace", "input": "value"}}   noise for a trace to record
# noisy_sum.features = np.abs        statistics of outputs that may distinguish the datasets
'''


def arguments(command: opts.Command) -> None:
    """Add the command and its options to the parser."""
    listed = command(
        "targets",
        "environments of third-party libraries: list (with their state); setup NAME...; new "
        "FILE writes a target file",
    )
    opts.add_options(
        listed,
        {
            "action": {
                "nargs": "?",
                "choices": ["list", "setup", "new"],
                "default": "list",
                "help": "default: list",
            },
            "names": {
                "nargs": "*",
                "metavar": "NAME",
                "help": "environments to install, or the target file to write",
            },
            **opts.JSON,
        },
    )


def run(args: argparse.Namespace) -> int:
    """Run ``dpwitness targets`` and return the exit code."""
    if args.action == "new":
        if len(args.names) != 1:
            raise InvalidArgument(f"targets new needs one FILE, got {len(args.names)}")
        return _write_template(Path(args.names[0]))
    if args.action == "setup":
        return _setup(args.names)
    if args.names:
        raise InvalidArgument(f"targets list takes no names, got {' '.join(args.names)}")
    return list_environments(args.json)


def _write_template(path: Path) -> int:
    if path.suffix != ".py":
        raise InvalidArgument(f"FILE must end in .py, got {str(path)!r}")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(TEMPLATE)
    except OSError as error:
        raise InvalidArgument(
            f"FILE must be a new file, got {str(path)!r}: {error.strerror}"
        ) from None
    print(f"written: {path}; try it with: dpwitness check {path}")
    return OK


def _setup(names: list[str]) -> int:
    from dpwitness.mechanisms.wrappers.programs.environments import environments

    installation = from_clone("installation", "dpwitness targets setup")
    known = environments()
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise InvalidArgument(
            f"targets setup needs names of environments ({', '.join(known)}), got "
            f"{' '.join(unknown) or 'none'}"
        )
    failed = []
    for name in names:
        try:
            installation.install(known[name], lambda line: print(line, flush=True))
        except InvalidArgument as error:
            failed.append(name)
            print(error, file=sys.stderr)
    if failed:
        print(f"not installed: {', '.join(failed)}", file=sys.stderr)
    return NO_VERDICT if failed else OK


def list_environments(as_json: bool) -> int:
    """Print the environments, their state and their targets."""
    from dpwitness.mechanisms.wrappers.programs.environments import environments, home

    rows = [
        {
            "name": name,
            "state": from_clone("installation", "dpwitness targets").state_of(found),
            "installs": [*found.requirements, *found.no_deps],
            "targets": [Path(file).stem for file in found.targets],
            "folder": str(found.folder),
            "note": found.note,
        }
        for name, found in environments().items()
    ]
    if as_json:
        print_json(rows)
        return OK
    width = max((len(str(row["name"])) for row in rows), default=0)
    for row in rows:
        main = row["installs"][-1] if row["installs"] else ""
        print(
            f"{row['name']:<{width}}  {row['state']:<10}  {main:<24}  "
            f"{', '.join(row['targets'])}: {row['note']}"
        )
    print(f"environments are in {home()}; to install one: dpwitness targets setup NAME")
    return OK
