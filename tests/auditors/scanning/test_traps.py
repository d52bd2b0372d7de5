"""Packages that misbehave at import or when they are called, and the limits under which this
happens.
"""

import math
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest

from dpwitness.auditors.scanning.package_discovery import discover
from dpwitness.auditors.scanning.proposals import propose, readings_of
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.mechanisms.wrappers.programs.confinement import LIMITS, confined, described, offered
from dpwitness.mechanisms.wrappers.programs.inside import descriptions, unimported

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def trapped(tmp_path_factory):
    folder = tmp_path_factory.mktemp("traps")
    return discover(folder=str(HERE / "traps"), working_folder=str(folder)), folder


def test_discovery_goes_on_and_says_what_happened_in_one_line_each(trapped):
    found, _ = trapped
    remarks = "\n".join(found.remarks)
    for line in (
        "traps.aborts is left out: its import was killed by signal 6 (SIGABRT)",
        "traps.exits cannot be imported: SystemExit: no",
        "traps.missing cannot be imported: ModuleNotFoundError: No module named "
        "'a_library_that_is_not_installed'",
        "traps.threads starts 1 thread(s) at import",
        "traps.threads prints at import",
        "the name shadow in traps hides this module",
    ):
        assert line in remarks
    assert found.missing == ("a_library_that_is_not_installed",)
    assert {each["name"] for each in found.objects} == {
        "aborting",
        "shadow",
        "writing",
        "unreachable_sum",
        "hollow_sum",
    }
    assert remarks.count("traps.hollow") == 1  # the package, not its modules


@pytest.mark.skipif("network" not in offered(), reason="this system cannot cut off the network")
def test_an_import_that_asks_the_network_gets_an_empty_answer(trapped):
    assert trapped[0].network and "an import asks the network, which is cut off" in "\n".join(
        trapped[0].remarks
    )


def test_calls_that_crash_or_write_elsewhere_are_skeletons_with_the_reason(trapped):
    found, folder = trapped
    options = {
        "python": None,
        "preamble": found.preamble,
        "root": found.about["root"],
        "memory": 0.0,
        "deadline": time.monotonic() + 60,
    }
    proposals = {p.reading.name.name: p for p in propose(readings_of(found), folder, **options)}
    unreachable = proposals["unreachable_sum"]
    assert unreachable.is_skeleton and "needs a library that is not installed" in unreachable.why
    assert [(p.name, p.default) for p in unreachable.reading.name.parameters] == [
        ("values", None),
        ("epsilon", "1.0"),
    ]
    assert (
        "killed by signal 6 (SIGABRT)" in proposals["aborting"].why
        and not proposals["aborting"].runs
    )
    # imported without the code of its package, as the target file does
    assert proposals["hollow_sum"].runs
    if "files" in offered():
        assert "PermissionError" in proposals["writing"].why
    assert not Path("/dpwitness-scan-must-not-write-here").exists()


def test_a_package_that_is_not_installed_is_an_error(tmp_path):
    with pytest.raises(InvalidArgument, match="scan: not_a_package cannot be read: ImportError"):
        discover(package="not_a_package", working_folder=str(tmp_path))


CODE = """
import pathlib, socket, sys
own, other = pathlib.Path(sys.argv[1]) / "own", pathlib.Path(sys.argv[2]) / "other"
own.write_text("x")
try:
    other.write_text("x")
    print("files open")
except OSError:
    print("files closed")
try:
    socket.create_connection(("198.51.100.1", 80), 1.0)
    print("network open")
except OSError as error:
    print("network closed" if error.errno == 101 else error)
server = socket.create_server(("127.0.0.1", 0))
socket.create_connection(server.getsockname()).close()
print("loopback works")
"""


def test_limits_hold_in_the_program_and_its_own_folder_is_open(tmp_path):
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    command = confined(str(inside), [sys.executable, "-c", CODE, str(inside), str(outside)])
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert (inside / "own").exists() and lines[-1] == "loopback works"
    assert ("files closed" in lines) == ("files" in offered()) == (not (outside / "other").exists())
    assert "network closed" in lines or "network" not in offered()


def test_the_limits_that_hold_are_described():
    assert set(offered()) <= set(LIMITS) and all(
        isinstance(described(), str) and described() for _ in LIMITS
    )


def test_folders_without_init_and_generic_type_hints_are_read(tmp_path):
    folder = tmp_path / "library"
    (folder / "protocols" / "frequency").mkdir(parents=True)
    (folder / "notes").mkdir()
    (folder / "__init__.py").write_text("")
    source = (
        "class Box(list):\n    __args__ = property(lambda self: 1)\n\n\ndef respond(bit: Box, "
        "epsilon: float):\n    return bit\n"
    )
    (folder / "protocols" / "frequency" / "response.py").write_text(source)
    found = discover(folder=str(folder), working_folder=str(tmp_path))
    assert "library.protocols.frequency.response" in {each["module"] for each in found.objects}
    assert {each["name"] for each in found.objects} >= {"respond"} and found.remarks == ()


@pytest.mark.parametrize(
    ("file", "code", "kind"),
    [
        (
            "made_up.py",
            "def noisy(value, epsilon=1.0):\n    return 0\n\n\nnoisy = math.hypot\n",
            "POSITIONAL_ONLY",
        ),
        (
            "made_up.pyi",
            "def noisy(value: float, epsilon: float = ...) -> float: ...\n",
            "POSITIONAL_OR_KEYWORD",
        ),
    ],
)
def test_a_compiled_function_has_the_signature_of_its_stub_or_of_the_function_that_it_replaces(
    tmp_path, monkeypatch, file, code, kind
):
    (tmp_path / file).write_text(code)
    module = types.ModuleType("made_up")
    # a function without a signature
    module.__file__, module.noisy = str(tmp_path / file.replace(".pyi", ".abi3.so")), math.hypot
    monkeypatch.setitem(sys.modules, "made_up", module)
    monkeypatch.setattr(descriptions, "add_signatures", unimported.add_signatures)
    unimported._definitions.cache_clear()
    events = []
    monkeypatch.setattr(descriptions, "_is_own", lambda value, tops: value is math.hypot)
    descriptions.describe_all(
        {"made_up": module}, ["made_up"], lambda event, **about: events.append(about), 9
    )
    assert [(p["name"], p["required"], p["kind"]) for p in events[0]["parameters"]] == [
        ("value", True, kind),
        ("epsilon", False, kind),
    ]
    assert events[0]["compiled"]
