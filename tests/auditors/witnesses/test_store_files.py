"""Files of stores: damage, other versions, full disks, and edits."""

import json
import os
import sqlite3

import pytest
from stored_audits import SHORT, SMALL, SOURCE, noisy, stopping, without_time

from dpwitness import InvalidArgument, audit
from dpwitness.auditors.witnesses.audit_records import AuditLedger
from dpwitness.auditors.witnesses.store import Store, open_store, read_store
from dpwitness.cli import main


def test_an_edited_bound_in_a_store_is_refused(tmp_path):
    file = tmp_path / "run.db"
    audit(noisy, **SMALL, store=file)
    with open_store(file) as store:
        found = json.loads(store.rows("facts", "key = 'end 0'")[0][2])
        found["tested"][0]["lower"] = 1.5
        store.write("facts", 1, "end 0", json.dumps(found))
    with pytest.raises(
        InvalidArgument,
        match=r"store is damaged or edited, got .*its counts give parameter_lower = 0\.\d+, but it "
        r"states 1\.5",
    ):
        audit(noisy, **SMALL, store=file)


def _version(file):
    open_store(file).close()
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA user_version = 7")


def _foreign(file):
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE mine (a)")


def _truncated(file):
    audit(noisy, **SMALL, store=file)
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def _flipped(file):
    audit(noisy, **SMALL, store=file)
    content = bytearray(file.read_bytes())
    content[4096:8192] = os.urandom(4096)
    file.write_bytes(content)


@pytest.mark.slow_cases(
    "_flipped-store must be (whole|an intact file)",
    "_truncated-store must be (whole|an intact file)",
)
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (_version, "store must be of version 2, got .* of version 7"),
        (_foreign, "store must be a store of dpwitness, got .*: a database of something else"),
        (_truncated, "store must be (whole|an intact file)"),
        (_flipped, "store must be (whole|an intact file)"),
        (
            lambda file: file.write_text("no database\n" * 100),
            "store must be an intact file that can be written, got .*not a database",
        ),
        (
            lambda file: file.mkdir(),
            "store must be a file that can be written, got .*is a directory",
        ),
    ],
)
def test_what_is_no_store_is_refused(tmp_path, make, message):
    make(tmp_path / "run.db")
    with pytest.raises(InvalidArgument, match=message):
        audit(noisy, **SMALL, store=tmp_path / "run.db")
    with pytest.raises(InvalidArgument):
        read_store(tmp_path / "run.db")


def fill_disk(store):
    """Leave a dozen pages: the pages that a database may take stand for the disk."""
    pages = store.connection.execute("PRAGMA page_count").fetchone()[0]
    store.connection.execute(f"PRAGMA max_page_count = {pages + 12}")


def test_a_full_disk_costs_no_verdict_and_no_count(plain, tmp_path):
    """The audit ends as it would, says so, and begins again where it can."""
    file = tmp_path / "run.db"
    with open_store(file) as store:
        fill_disk(store)
        full = audit(noisy, **SMALL, store=store)
    assert {**without_time(full), "notes": []} == {**plain, "notes": []}
    assert [
        note
        for note in full.notes
        if "could not be written to the end (database or disk is full)" in note
    ]
    assert without_time(audit(noisy, **SMALL, store=file)) == plain


def test_a_disk_that_has_room_again_gets_all(plain, tmp_path, monkeypatch):
    monkeypatch.setattr("dpwitness.auditors.witnesses.audit_records._RETRY", 0.0)
    file = tmp_path / "run.db"
    with open_store(file) as store:
        fill_disk(store)

        def progress(done, planned):
            if done > 15_000:
                store.connection.execute("PRAGMA max_page_count = 1000000")

        assert without_time(audit(noisy, **SMALL, store=store, progress=progress)) == plain
    with read_store(file) as store:
        assert store.entries()[0].verdict == "NOT_REFUTED"


@pytest.fixture(scope="module")
def small_store(tmp_path_factory):
    """A finished audit of 1,000 runs beside one that was stopped, and the results that
    both give.
    """
    file = tmp_path_factory.mktemp("damage") / "run.db"
    first = without_time(audit(noisy, **SHORT, store=file))
    audit(noisy, **SHORT | {"seed": 9}, name="other", store=file, progress=stopping(700))
    return file.read_bytes(), first


def flipped_places(content, count):
    """Bytes of pages in use: those that are not zero."""
    used = [place for place, byte in enumerate(content) if byte]
    return used[:: max(1, len(used) // count)]


def test_a_flipped_bit_is_seen_or_changes_nothing(small_store, tmp_path, capsys):
    """Reading alone: each flip ends in a line that names the store, or shows the results as they
    are.
    """
    content, first = small_store
    file, lines = tmp_path / "run.db", []
    for number, place in enumerate(flipped_places(content, 300)):
        changed = bytearray(content)
        changed[place] ^= 1 << number % 8
        file.write_bytes(changed)
        try:
            with read_store(file) as store:
                results = {entry.name: entry.result for entry in store.entries()}
                for entry in store.entries():
                    store.require_intact(entry)
                    store.rows("spans")
        except InvalidArgument as error:
            lines.append(str(error))
            continue
        for name, result in results.items():
            assert name in ("noisy", "other") and (
                result is None or result["verdict"] == first["verdict"]
            )
        assert main(["list", "stores", str(file)]) in (0, 2)
        assert "unexpected error" not in capsys.readouterr().err
    assert len(lines) > 100 and all(
        line.startswith("store ") and str(file) in line for line in lines
    )


@pytest.mark.parametrize("table", ["audits", "facts", "looks", "stages", "spans"])
def test_a_damaged_audit_is_named_and_removed_and_others_stay(small_store, tmp_path, table, capsys):
    content, first = small_store
    file = tmp_path / "run.db"
    file.write_bytes(content)
    column, where = {
        "audits": ("begun", "id = 2"),
        "facts": ("value", "audit = 2 AND key LIKE 'probe%'"),
        "looks": ("bound", "0"),
        "stages": ("rounds", "audit = 2"),
        "spans": ("payload", "stage >= 2 * 2 * 2 << 27"),
    }[table]
    with sqlite3.connect(file) as connection:
        if table == "looks":
            connection.execute("INSERT INTO looks VALUES (2, 5, 0.5, 'none')")
        else:
            connection.execute(
                f"UPDATE {table} SET {column} = substr({column}, 1, 3) || '7' WHERE {where}"
            )
    with pytest.raises(InvalidArgument, match=f"store is damaged.*table {table}, "):
        audit(noisy, **SHORT | {"seed": 9}, name="other", store=file)
    assert without_time(audit(noisy, **SHORT, store=file)) == first
    assert (
        main(["list", "stores", str(file)]) == (0 if table == "spans" else 2)
        and "noisy  NOT_REFUTED" in capsys.readouterr().out
    )
    assert (
        main(["store", "gc", str(file)]) == 0
        and "1 damaged audits removed" in capsys.readouterr().out
    )
    with read_store(file) as store:
        assert [entry.name for entry in store.entries()] == ["noisy"] and not store.damage(
            spans=True
        )


def test_a_store_that_cannot_be_changed_is_one_line(small_store, tmp_path, monkeypatch, capsys):
    """Damage between the rows, such as a wrong list of free pages, and a full disk show only when
    something is written.
    """
    file = tmp_path / "run.db"
    file.write_bytes(small_store[0])

    def fail(*_):
        raise sqlite3.DatabaseError("database disk image is malformed")

    monkeypatch.setattr(Store, "clear_damage", fail)
    assert main(["store", "gc", str(file)]) == 2
    told = f"store is damaged or cannot be written, got {file}: database disk image is malformed"
    assert told in capsys.readouterr().err


def test_a_store_that_could_not_be_written_ends_the_command_with_2(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        AuditLedger,
        "trouble",
        property(lambda self: "disk full", lambda self, value: None),
        raising=False,
    )
    (tmp_path / "mine.py").write_text(SOURCE)
    arguments = ["audit", "mine.py:noisy", "--claim", "pure:1", "--trials", "1000"]
    assert (
        main(
            [
                *arguments,
                "--d0",
                "[0]",
                "--d1",
                "[1]",
                "--in-process",
                "--store",
                "run.db",
                "--report",
                "out",
            ]
        )
        == 2
    )
    assert "NOT REFUTED" in capsys.readouterr().out
    assert (
        json.loads((tmp_path / "out" / "audit.json").read_text())["results"][0]["verdict"]
        == "NOT_REFUTED"
    )
