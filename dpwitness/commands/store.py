"""``dpwitness store``: what a store holds, two of them in one, and what may go."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpwitness.commands.common import Command, command_line, print_json
from dpwitness.ending import OK
from dpwitness.mechanisms.terms.validation import InvalidArgument

if TYPE_CHECKING:
    from dpwitness.auditors.storing.store import Entry, Store

_ACTIONS = ("ls", "show", "merge", "gc", "export")


def arguments(command: Command) -> None:
    """Declare the command."""
    store = command("store", "audits that were written down: ls FILE; show FILE [NAME]; merge FILE OTHER...; gc FILE; export FILE DIR")
    store.add_argument("action", choices=_ACTIONS, help="gc removes the chunks of audits that have come to their end, results stay")
    store.add_argument("file", metavar="FILE", help="the store")
    store.add_argument("names", nargs="*", metavar="NAME", help="audits to show; stores to merge into FILE; the folder of an export")
    store.add_argument("--json", action="store_true", help="print as JSON")


def run(args: argparse.Namespace) -> int:
    """``dpwitness store``."""
    {"ls": _list, "show": _show, "merge": _merge, "gc": _gc, "export": _export}[args.action](args)
    return OK


def _list(args: argparse.Namespace) -> None:
    from dpwitness.auditors.storing.store import read_store

    _need(args, 0, "no names")
    with read_store(args.file) as store:
        entries = store.entries()
    if args.json:
        print_json([_told(entry) for entry in entries])
        return
    width = max([len(entry.name) for entry in entries], default=0)
    for entry in entries:
        print(f"{entry.name:<{width}}  {_state(entry)}")
    print(f"{len(entries)} audits, {Path(args.file).stat().st_size / 1e6:.1f} MB")


def _show(args: argparse.Namespace) -> None:
    from dpwitness.auditors.storing.store import read_store

    with read_store(args.file) as store:
        shown = [_told(entry) | _parts(store, entry) for entry in _chosen(store, args.names)]
    if args.json:
        print_json(shown)
        return
    for told in shown:
        print(f"{told['name']}: {told['state']}; begun {told['begun']}")
        for key, value in told["content"].items():
            print(f"  {key}: {value}")
        for stage in told["stages"]:
            print(
                f"  phase {stage['phase']}, pair {stage['pair']}: {stage['done']:,} of {stage['rounds']:,} rounds in {stage['spans']} parts"
            )
        for look in told["looks"]:
            print(f"  looked after {look['runs']:,} runs: {look['bound']:.6g}")


def _merge(args: argparse.Namespace) -> None:
    from dpwitness.auditors.storing.merging import merge
    from dpwitness.auditors.storing.store import open_store, read_store

    if not args.names:
        raise InvalidArgument("store merge needs stores to merge into FILE, got none")
    with open_store(args.file) as store:
        for name in args.names:
            with read_store(name) as other:
                found = merge(store, other)
            print(f"{name}: {found.audits} audits and {found.spans} parts added, {found.equal} that were in both agree")


def _gc(args: argparse.Namespace) -> None:
    from dpwitness.auditors.storing.store import open_store

    _need(args, 0, "no names")
    with open_store(args.file) as store:
        before, ended = Path(args.file).stat().st_size, [entry for entry in store.entries() if entry.verdict is not None]
        for entry in ended:
            store.drop(entry, only_chunks=True)
        store.connection.execute("VACUUM")
    print(f"{len(ended)} audits keep their results alone: {before / 1e6:.1f} MB before, {Path(args.file).stat().st_size / 1e6:.1f} MB now")


def _export(args: argparse.Namespace) -> None:
    from dpwitness.auditors.storing.store import read_store
    from dpwitness.reports.audit.report import write_report

    _need(args, 1, "one folder")
    with read_store(args.file) as store:
        results = [entry.result for entry in store.entries() if entry.result is not None]
    if not results:
        raise InvalidArgument(f"FILE must hold an audit that has come to its end, got {args.file}, which holds none")
    print(
        f"{len(results)} results: {write_report(results, args.names[0], title=f'Audits of {Path(args.file).name}', command=command_line())}"
    )


def _need(args: argparse.Namespace, count: int, told: str) -> None:
    if len(args.names) != count:
        raise InvalidArgument(f"store {args.action} takes {told} after FILE, got {' '.join(args.names) or 'none'}")


def _chosen(store: Store, names: list[str]) -> list[Entry]:
    entries = store.entries()
    for name in names:
        if name not in {entry.name for entry in entries}:
            there = ", ".join(sorted({entry.name for entry in entries})) or "none"
            raise InvalidArgument(f"NAME must be an audit of {store.path}, got {name!r}; there are: {there}")
    return [entry for entry in entries if not names or entry.name in names]


def _state(entry: Entry) -> str:
    told = f"{entry.done:,} of {entry.planned:,} runs"
    return f"{entry.verdict}  {told}" if entry.verdict else f"not at its end  {told}"


def _told(entry: Entry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "state": _state(entry),
        "verdict": entry.verdict,
        "runs": entry.done,
        "planned": entry.planned,
        "begun": time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry.begun)),
        "hash": entry.hash,
        "content": entry.identity,
    }


def _parts(store: Store, entry: Entry) -> dict[str, Any]:
    stages = store.connection.execute(
        "SELECT phase, pair, stages.rounds, coalesce(sum(spans.rounds), 0), count(first) "
        "FROM stages LEFT JOIN spans ON spans.stage = stages.id WHERE audit = ? GROUP BY stages.id ORDER BY stages.id",
        (entry.id,),
    )
    looks = store.connection.execute("SELECT runs, bound FROM looks WHERE audit = ? ORDER BY runs", (entry.id,))
    names = ("phase", "pair", "rounds", "done", "spans")
    return {
        "stages": [dict(zip(names, row, strict=True)) for row in stages],
        "looks": [{"runs": runs, "bound": bound} for runs, bound in looks],
    }
