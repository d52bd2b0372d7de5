"""``dpwitness store``: clean the audits in a store; and ``dpwitness list stores``."""

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
    store = command("store", "clean stored audits: gc FILE [NAME...]")
    opts.add_options(
        store,
        {
            "action": {
                "choices": ["gc"],
                "help": "gc removes damaged audits, named audits, and the chunks of finished "
                "audits, whose results it keeps",
            },
            "file": {"metavar": "FILE", "help": "file of the store"},
            "names": {"nargs": "*", "metavar": "NAME", "help": "audits to remove"},
        },
    )


def run(args: argparse.Namespace) -> int:
    """Run ``dpwitness store`` and return the exit code."""
    with _readable(args.file):
        _gc(args)
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
            for entry in entries:
                entry.require_consistent()
    return OK


def _gc(args: argparse.Namespace) -> None:
    """Remove damaged and named audits, and the chunks of finished audits."""
    from dpwitness.auditors.witnesses.store import open_store

    with open_store(args.file) as store:
        before, damaged = Path(args.file).stat().st_size, store.clear_damage()
        for entry in _named_audits(store, args.names):
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


def _named_audits(store: Store, names: list[str]) -> list[Entry]:
    """Return the audits with the given names. Raise InvalidArgument for an unknown name."""
    entries = store.entries()
    for name in names:
        if name not in {entry.name for entry in entries}:
            existing = ", ".join(sorted({entry.name for entry in entries})) or "none"
            raise InvalidArgument(
                f"NAME must be an audit of {store.path}, got {name!r}; audits in the store: "
                f"{existing}"
            )
    return [entry for entry in entries if entry.name in names]


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
