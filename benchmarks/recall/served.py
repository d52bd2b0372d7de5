"""An entry of the corpus as a program of the protocol, so that any auditor can run it.

``python -m dpwitness.benchmarks.recall.served NAME [--after]`` installs the release before the
repair, or after it, and answers the requests of docs/reference/protocol.md over standard input and
output, until the input ends. ``--list`` prints all entries as JSON: library, releases and their
environments, family, source and fault of the bug, claim and domain.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any, BinaryIO

import numpy as np

from dpwitness.benchmarks.installation import install
from dpwitness.benchmarks.recall.corpus import Entry, corpus
from dpwitness.core.protocols import MechanismFailed
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument, did_you_mean
from dpwitness.mechanisms.wrappers.programs.target import Target


def hello(entry: Entry, target: Target) -> Json:
    """Return the first message: the name, the claim and the domain of an entry. Raise
    InvalidArgument if its target declares none.
    """
    if target.claim is None or target.domain is None:
        raise InvalidArgument(
            f"entry must be that of a mechanism with a claim and a domain, got {entry.name!r}, "
            f"whose target is a function of another kind: see {entry.target}"
        )
    domain: Any = target.domain
    return {
        "protocol": 1,
        "name": entry.name,
        "seedable": bool(getattr(target, "seeded", True)),
        "datasets": ["json"],
        "outputs": ["json"],
        "claim": target.claim.identity,
        "domain": {"kind": type(domain).__name__}
        | {each.name: getattr(domain, each.name) for each in fields(domain) if each.init},
    }


def serve(target: Target, first: Json, source: BinaryIO, sink: BinaryIO) -> None:
    """Answer all requests of `source` on `sink`, after the first message."""

    def say(*messages: Any) -> None:
        lines = (json.dumps(message, default=_plain) for message in messages)
        sink.write("".join(f"{line}\n" for line in lines).encode())
        sink.flush()

    say(first)
    datasets: dict[int, Any] = {}
    for line in source:
        try:
            asked = json.loads(line)
        except ValueError:
            asked = {}
        if asked.get("op") == "dataset":
            datasets[asked["dataset"]] = asked["value"]
        elif asked.get("op") != "run" or asked["size"] < 1 or asked["dataset"] not in datasets:
            say({"failed": "the request is none that is known, or no dataset has this number"})
        else:
            rng = np.random.default_rng(asked["seed"])
            try:
                found = list(target.sample(datasets[asked["dataset"]], asked["size"], rng))
            except MechanismFailed as error:
                say({"failed": str(error)})
            except Exception as error:  # an exception of a run is an output
                say({"raised": type(error).__name__, "text": str(error)})
            else:
                say({"kind": "json", "rows": len(found)}, *found)


def _plain(value: Any) -> Any:
    """Return a value of NumPy, or of a domain, as JSON has it."""
    return value.tolist() if hasattr(value, "tolist") else list(value)


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve an entry, or list all."""
    parser = argparse.ArgumentParser(description="serve an entry of the corpus to any auditor")
    parser.add_argument("name", nargs="?", help="name of an entry")
    parser.add_argument("--after", action="store_true", help="serve the repaired release")
    parser.add_argument("--list", action="store_true", help="print all entries as JSON")
    args = parser.parse_args(arguments)
    known = {entry.name: entry for entry in corpus()}
    if args.list:
        print(json.dumps([asdict(entry) for entry in known.values()], indent=1, default=str))
        return 0
    entry = known.get(args.name or "")
    release = None if entry is None else entry.after if args.after else entry.before
    if entry is None or release is None or release.environment is None or not entry.runnable:
        what = did_you_mean(args.name or "", known)
        parser.error(f"NAME must be an entry with a release that installs, got {args.name}{what}")
    install(release.environment)
    file, _, name = entry.target.rpartition(":")
    target = Target(file, name, str(release.environment.interpreter))
    try:
        serve(target, hello(entry, target), sys.stdin.buffer, sys.stdout.buffer)
    except InvalidArgument as error:
        parser.error(str(error))
    finally:
        target.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
