"""``dpwitness store``: list, show and clean the audits in a store."""

from __future__ import annotations

import argparse
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpwitness.commands import options as opts
from dpwitness.commands.common import print_json
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.reports.phrasing.wording import name_cell, name_width
from dpwitness.terminal import OK

if TYPE_CHECKING:
    from dpwitness.auditors.witnesses.store import Entry, Store


def arguments(command: opts.Command) -> None:
    """Add the command and its options to the parser."""
    store = command("store", "manage stored audits: ls FILE; show FILE [NAME]; gc FILE [NAME]")
    opts.add_options(
        store,
        {
            "action": {
                "choices": ["ls", "show", "gc"],
                "help": "gc removes damaged audits, named audits, and the chunks of finished "
                "audits, whose results it keeps",
            },
            "file": {"metavar": "FILE", "help": "file of the store"},
            "names": {"nargs": "*", "metavar": "NAME", "help": "audits to show or to remove"},
            **opts.JSON,
        },
    )


def run(args: argparse.Namespace) -> int:
    """Run ``dpwitness store`` and return the exit code."""
    if args.action == "ls":
        if args.names:
            raise InvalidArgument(f"store ls takes no names after FILE, got {' '.join(args.names)}")
        return list_audits([args.file], args.json)
    with _readable(args.file):
        {"show": _show, "gc": _gc}[args.action](args)
    return OK


@contextmanager
def _readable(file: str) -> Iterator[None]:
    """Raise InvalidArgument for damage to the file outside the rows, or a full disk."""
    try:
        yield
    except sqlite3.Error as error:
        raise InvalidArgument(
            f"store is damaged or cannot be written, got {file}: {error}"
        ) from None


def list_audits(files: Sequence[str], as_json: bool) -> int:
    """Print the audits of stores and the size of each store."""
    from dpwitness.auditors.witnesses.store import read_store

    rows = []
    for number, file in enumerate(files, start=1):
        with _readable(file), read_store(file) as store:
            entries = store.entries()
            rows += [_audit_json(entry) for entry in entries]
            if not as_json:
                width = name_width(entry.name for entry in entries)
                for entry in entries:
                    print(f"{name_cell(entry.name, width)}  {_format_state(entry)}")
                where = f"{file}: " if len(files) > 1 else ""
                print(f"{where}{len(entries)} audits, {Path(file).stat().st_size / 1e6:.1f} MB")
            elif number == len(files):
                print_json(rows)
            _require_intact(store, entries)
    return OK


def _show(args: argparse.Namespace) -> None:
    from dpwitness.auditors.witnesses.store import read_store

    with read_store(args.file) as store:
        chosen = _select_audits(store, args.names)
        for entry in chosen:
            store.require_intact(entry)
            entry.require_consistent()
        audits = [_audit_json(entry) | _stages_json(store, entry) for entry in chosen]
    if args.json:
        print_json(audits)
        return
    for audit_data in audits:
        print(f"{audit_data['name']}: {audit_data['state']}; begun {audit_data['begun']}")
        for key, value in audit_data["content"].items():
            print(f"  {key}: {value}")
        for stage in audit_data["stages"]:
            print(
                f"  phase {stage['phase']}, pair {stage['pair']}: {stage['done']:,} of "
                f"{stage['rounds']:,} rounds in {stage['spans']} parts"
            )
        for look in audit_data["looks"]:
            print(f"  interim look after {look['runs']:,} runs: {look['bound']:.6g}")


def _gc(args: argparse.Namespace) -> None:
    """Remove damaged and named audits, and the chunks of finished audits."""
    from dpwitness.auditors.witnesses.store import open_store

    with open_store(args.file) as store:
        before, damaged = Path(args.file).stat().st_size, store.clear_damage()
        for entry in _select_audits(store, args.names) if args.names else ():
            store.drop(entry.id)
        finished = [entry for entry in store.entries() if entry.verdict is not None]
        for entry in finished:
            store.drop(entry.id, only_chunks=True)
        store.connection.execute("VACUUM")
    if damaged:
        print(f"{damaged} damaged audits removed")
    print(
        f"{len(finished)} audits were reduced to results: {before / 1e6:.1f} MB before, "
        f"{Path(args.file).stat().st_size / 1e6:.1f} MB now"
    )


def _require_intact(store: Store, entries: list[Entry]) -> None:
    """Raise InvalidArgument if a row of the store is damaged; output that was printed before is not
    affected.
    """
    names = {entry.id: entry.name for entry in entries}
    for damage in store.damage():
        where = (
            f" at audit {damage.name or names[damage.audit]}"
            if damage.name or damage.audit in names
            else ""
        )
        raise InvalidArgument(
            f"store is damaged{where} ({damage.row}), got {store.path}: remove the damaged "
            f"audits with `dpwitness store gc {store.path}`"
        )


def _select_audits(store: Store, names: list[str]) -> list[Entry]:
    """Return the audits with the given names, or all audits. Raise InvalidArgument for an unknown
    name.
    """
    entries = store.entries()
    for name in names:
        if name not in {entry.name for entry in entries}:
            existing = ", ".join(sorted({entry.name for entry in entries})) or "none"
            raise InvalidArgument(
                f"NAME must be an audit of {store.path}, got {name!r}; audits in the store: "
                f"{existing}"
            )
    return [entry for entry in entries if not names or entry.name in names]


def _format_state(entry: Entry) -> str:
    progress = f"{entry.done:,} of {entry.planned:,} runs"
    return f"{entry.verdict}  {progress}" if entry.verdict else f"not finished  {progress}"


def _audit_json(entry: Entry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "state": _format_state(entry),
        "verdict": entry.verdict,
        "runs": entry.done,
        "planned": entry.planned,
        "begun": time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry.begun)),
        "hash": entry.hash,
        "content": entry.identity,
    }


def _stages_json(store: Store, entry: Entry) -> dict[str, Any]:
    stages = store.query(
        "SELECT phase, pair, stages.rounds, coalesce(sum(spans.rounds), 0), count(first) "
        "FROM stages LEFT JOIN spans ON spans.stage = stages.id WHERE audit = ? GROUP BY "
        "stages.id ORDER BY stages.id",
        entry.id,
    )
    looks = [row[1:] for row in store.rows("looks", "audit = ? ORDER BY runs", entry.id)]
    names = ("phase", "pair", "rounds", "done", "spans")
    return {
        "stages": [dict(zip(names, row, strict=True)) for row in stages],
        "looks": [{"runs": runs, "bound": bound} for runs, bound in looks],
    }
