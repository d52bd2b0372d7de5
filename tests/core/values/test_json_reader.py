"""Files are read within limits and written whole: devices, pipes and folders are refused, no mutant
of JSON gets further than one line.
"""

import json
import os

import pytest

from dpwitness.core.values import json_reader as js
from dpwitness.core.values.atomic_files import aside, write_json, write_text
from dpwitness.core.values.validation import InvalidArgument


@pytest.mark.slow_cases("content12-at most 4,000,000 elements")
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[" * 5_000 + b"]" * 5_000, "nested at most 80 deep"),
        (b"[" * 90 + b"]" * 90, "nested at most 80 deep"),
        (b"[" * 900_000, "nested at most 80 deep"),
        (b'{"a": NaN}', "numbers must be finite, got NaN"),
        (b"-Infinity", "numbers must be finite, got -Infinity"),
        (b"1e400", "numbers must be finite, got 1e400"),
        (b"9" * 5_000, "integer string conversion|at most 2000 digits"),
        (b'{"a": 1, "a": 2}', '"a" occurs twice'),
        (b"\xff\xfe", "must be UTF-8"),
        (b'{"a": ', "not a complete JSON file"),
        (b"", "not a complete JSON file"),
        (json.dumps("x" * 300_000).encode(), "at most 200,000 characters"),
        (b"[" + b"0," * js.ELEMENTS + b"0]", "at most 4,000,000 elements"),
    ],
)
def test_what_no_file_of_ours_holds(content, message):
    with pytest.raises(InvalidArgument, match=message):
        js.parse(content)


def test_what_is_no_regular_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for place, message in [
        (tmp_path / "pipe", "a pipe"),
        (tmp_path, "a folder"),
        ("/dev/zero", "a device"),
        ("/dev/full", "a device"),
    ]:
        with pytest.raises(InvalidArgument, match=f"must be a regular file, it is {message}"):
            js.read_bytes(place)
    with pytest.raises(InvalidArgument, match="No such file"):
        js.read_json(tmp_path / "none.json", "replay")
    with pytest.raises(InvalidArgument, match="must be readable"):
        js.read_bytes("a\0b")
    (tmp_path / "big").write_bytes(b"0" * 1001)
    with pytest.raises(InvalidArgument, match="at most 1,000 bytes"):
        js.read_bytes(tmp_path / "big", most=1000)
    assert len(js.read_bytes(tmp_path / "big", most=1001)) == 1001


RULE = js.record(
    {"note": js.text()},
    counts=js.record(right=js.integer(), rounds=js.integer(1, 100)),
    mode=js.one_of("a", 1),
    share=js.number(lambda v: 0 < v < 1, "a number in (0, 1)"),
    names=js.listing(js.text(), 1),
    more=js.items(js.nullable(js.integer())),
)
GOOD = {
    "counts": {"right": 1, "rounds": 2},
    "mode": "a",
    "share": 0.5,
    "names": ["x"],
    "more": {"k": None},
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"counts": {"right": "x", "rounds": 2}},
            'counts.right must be a whole number, at least 0, got "x"',
        ),
        (
            {"counts": {"right": True, "rounds": 2}},
            "counts.right must be a whole number, at least 0, got true",
        ),
        (
            {"counts": {"right": 1, "rounds": 101}},
            "counts.rounds must be a whole number, between 1 and 100, got 101",
        ),
        ({"counts": {"right": 1}}, "counts.rounds is missing"),
        ({"counts": []}, "counts must be an object, got a list of 0"),
        ({"mode": True}, 'mode must be one of "a", 1, got true'),
        ({"share": 1}, r"share must be a number in \(0, 1\), got 1"),
        (
            {"share": 10**400},
            r"share must be a number in \(0, 1\), got a whole number of 1329 bits",
        ),
        ({"names": []}, "names must have at least 1 entries"),
        ({"names": ["x", 3]}, r"names\[1\] must be a text, got 3"),
        ({"more": {"k": 1.5}}, "more.k must be a whole number"),
        ({"other": 1}, "other is not a known field"),
    ],
)
def test_an_error_names_the_field_the_rule_and_the_value(change, message):
    assert RULE(GOOD | {"note": "n"}, "")["note"] == "n"
    with pytest.raises(InvalidArgument, match=f"^{message}"):
        RULE(GOOD | change, "")


def _interrupted(goal):
    with aside(goal) as draft:
        draft.write_text("half")
        raise KeyboardInterrupt


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    goal = tmp_path / "audit.json"
    write_json(goal, {"a": 1})
    goal.chmod(0o640)
    with pytest.raises(ValueError, match="JSON"):
        write_json(goal, {"a": float("nan")})
    with pytest.raises(KeyboardInterrupt):
        _interrupted(goal)
    assert json.loads(goal.read_text()) == {"a": 1} and os.listdir(tmp_path) == ["audit.json"]
    write_json(goal, {"a": "\ud800"})  # a text that is no UTF-8
    assert json.loads(goal.read_text()) == {"a": "\ud800"}
    link = tmp_path / "link.json"
    link.symlink_to(goal)
    with pytest.raises(InvalidArgument, match=r"link\.json' is a symbolic link"):
        write_json(link, {"a": 2})
    assert link.is_symlink() and json.loads(goal.read_text()) == {"a": "\ud800"}
    assert goal.stat().st_mode & 0o777 == 0o640
    write_text(tmp_path / "new", "x")
    assert (tmp_path / "new").stat().st_mode & 0o400
