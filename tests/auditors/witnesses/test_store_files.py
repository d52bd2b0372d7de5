"""Files of stores: damage, other versions, full disks, and edits."""

import contextlib
import json
import os
import sqlite3

import pytest
from stored_audits import SHORT, SMALL, noisy, stopping, without_time

from dpwitness import InvalidArgument, audit
from dpwitness.auditors.witnesses.store import open_store, read_store
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


@pytest.fixture(scope="module")
def small_store(tmp_path_factory):
    """A finished audit of 1,000 runs beside one that was stopped, and the results that
    both give.
    """
    file = tmp_path_factory.mktemp("damage") / "run.db"
    first = without_time(audit(noisy, **SHORT, store=file))
    audit(noisy, **SHORT | {"seed": 9}, name="other", store=file, progress=stopping(700))
    return file.read_bytes(), first


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE audits SET planned = 7 WHERE name = 'noisy'",
        "UPDATE facts SET value = value || ' ' WHERE audit = 1 AND key LIKE 'end%'",
        "UPDATE stages SET rounds = rounds + 1 WHERE audit = 1",
    ],
)
def test_only_a_damaged_audit_is_refused_until_it_is_removed(small_store, tmp_path, capsys, change):
    file, other = tmp_path / "run.db", SHORT | {"seed": 9}
    file.write_bytes(small_store[0])
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(change)
    with pytest.raises(InvalidArgument, match=r"store is damaged at audit noisy .*store gc"):
        audit(noisy, **SHORT, store=file)
    assert main(["list", "stores", str(file)]) == 2
    shown = capsys.readouterr()
    assert "other" in shown.out
    assert "is damaged at audit" in shown.err and "table " in shown.err
    went_on = without_time(audit(noisy, **other, name="other", store=file))
    assert went_on["verdict"] and main(["store", "gc", str(file)]) == 0
    assert "damaged audit" in capsys.readouterr().out
    assert main(["list", "stores", str(file), "--json"]) == 0
    assert [entry["name"] for entry in json.loads(capsys.readouterr().out)] == ["other"]
    assert without_time(audit(noisy, **SHORT, store=file)) == small_store[1]


@pytest.mark.parametrize("command", [["store", "gc"], ["list", "stores"]])
def test_commands_on_a_missing_store_create_no_file(tmp_path, capsys, command):
    file = tmp_path / "none.db"
    assert main([*command, str(file)]) == 2 and not file.exists()
    assert "store must be" in capsys.readouterr().err
    file.touch()  # nor do they make a store of an empty one
    assert main([*command, str(file)]) == 2 and not file.read_bytes()
    assert "store must be a store of dpwitness" in capsys.readouterr().err


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
                    store.require_intact(entry.id, entry.name)
                if damage := store.damage(spans=True):
                    raise InvalidArgument(f"store {file}: {damage}")
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
