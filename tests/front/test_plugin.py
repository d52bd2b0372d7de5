"""Tests of the pytest plugin in separate test runs: assertions, marked tests, and one report for
any number of workers.
"""

import json
import re

import pytest

TESTS = """
import numpy as np
import pytest
import dpwitness as dpw
from dpwitness import mechanisms as m

PAIR = dpw.Pair(np.array([0.0]), np.array([1.0]))
stages = []

def leaky(dataset, size, rng):
    return dataset[0] + rng.laplace(0.0, 0.5, size)

def fine(dataset, size, rng):
    return dataset[0] + rng.laplace(0.0, 1.0, size)

def raises(dataset, size, rng):
    raise RuntimeError("out of order")

def test_kept(dp_audit):
    result = dp_audit(fine, claim="pure:1", pair=PAIR, trials=50_000)
    assert result.confidence == 1 - 1e-9 and result.epsilon_lower > 0.7

def test_broken(dp_audit):
    dp_audit(leaky, claim="pure:1", pair=PAIR, trials=20_000)

def test_two(dp_audit):
    for epsilon in (1, 2):
        dp_audit(fine, claim=f"pure:{epsilon}", pair=PAIR, trials=20_000)

def test_no_verdict(dp_audit):
    dp_audit(raises, claim="pure:1", pair=PAIR)

def test_local(dp_audit):
    dp_audit(lambda dataset, size, rng: leaky(dataset, size, rng), claim="pure:1", pair=PAIR, trials=20_000)

@pytest.mark.dp_audit(claim="pure:1", pair=PAIR, trials=20_000)
@pytest.mark.parametrize("multiplier", [1.0, 0.5])
def test_marked(multiplier):
    return m.Laplace(1.0, arithmetic="grid", noise_multiplier=multiplier)

@pytest.mark.dp_audit(claim="pure:1", trials=20_000)
def test_yielded(tmp_path):
    yield m.RandomizedResponse(1.0)
    print("after the audit")

@pytest.mark.dp_audit(claim="pure:1")
def test_nothing():
    pass

@pytest.mark.dp_audit(claim="pure:1", trials=20_000)
class TestGroup:
    def test_method(self):
        return m.RandomizedResponse(1.0)

def test_plain():
    assert 1 + 1 == 2
"""

KINDS = """
import numpy as np
import pytest
import dpwitness as dpw
from dpwitness import mechanisms as m
from dpwitness.auditors import MeanBound

@pytest.mark.dp_audit(white_box=True)
@pytest.mark.parametrize("multiplier", [1.0, 0.5])
def test_law(multiplier):
    return m.Laplace(1.0, noise_multiplier=multiplier)

def test_law_of_a_pair(dp_audit):
    result = dp_audit(m.Laplace(1.0), white_box=True, pair=dpw.Pair(np.array([0.0]), np.array([0.5])))
    assert result.epsilon_upper < 0.51

@pytest.mark.parametrize("bound", [0.25, 0.2])
def test_sensitivity(dp_check, bound):
    dp_check(dpw.audit_sensitivity(np.mean, bound, m.Records(4), evaluations=300))

@pytest.mark.parametrize("bound", [1.1, 0.9])
def test_utility(dp_check, bound):
    dp_check(dpw.audit_utility(lambda size, rng: rng.exponential(size=size), MeanBound(bound), runs=20_000))

def test_no_claim(dp_audit):
    with pytest.raises(dpw.InvalidArgument, match="mechanism must have a method sample"):
        dp_audit(lambda d, n, rng: rng.random(n), claim="pure:1", white_box=True)
"""


@pytest.fixture
def suite(shell):
    (shell.folder / "test_mine.py").write_text(TESTS)
    return shell


def counts(text):
    return re.search(r"(\d+) failed, (\d+) passed", text).groups()


@pytest.mark.slow
def test_one_report_for_any_number_of_workers(suite):
    runs = {}
    for name, extra in {"two": ["-n", "2"], "off": ["-p", "no:xdist"]}.items():
        ran = suite.pytest(
            "--dp-report",
            "out/audit.md",
            "-k",
            "two or no_verdict or marked or yielded or nothing or plain",
            *extra,
        )
        assert counts(ran.stdout) == ("3", "4"), ran.stdout
        assert "audits: 6, 1 violated; report: out/audit.md" in ran.stdout
        runs[name] = [
            (suite.folder / "out" / f"audit.{kind}").read_text() for kind in ("md", "json")
        ]
    assert runs["two"] == runs["off"]
    results = json.loads(runs["two"][1])["results"]
    assert [r["test"] for r in results] == sorted(r["test"] for r in results)
    assert [r["claim"] for r in results if r["test"].endswith("test_two")] == ["pure:1", "pure:2"]


def test_failure_messages_lead_to_the_witness(suite):
    ran = suite.pytest("-k", "broken or no_verdict or local or marked", "-rA")
    assert re.search(
        r"VIOLATED: epsilon > 1\.\d+ certified against the claim pure:1 \(confidence 0.999999999\)",
        ran.stdout,
    )
    assert "NoVerdict: ERROR: mechanism always raises RuntimeError: out of order" in ran.stdout
    assert "since the mechanism cannot be imported by name" in ran.stdout
    assert "pytest_plugin.py" not in ran.stdout and "testing.py" not in ran.stdout.replace(
        "dpwitness.testing", ""
    )
    replays = set(re.findall(r"replay:  dpwitness (replay \S+)", ran.stdout))
    assert len(replays) == 2
    for command in replays:
        again = suite.dpwitness(*command.split(), "--json")
        assert again.returncode == 1, again.stderr


def test_the_marker_is_known_and_a_bad_folder_is_refused_before_anything_runs(suite):
    assert "@pytest.mark.dp_audit(claim=None" in suite.pytest("--markers").stdout
    refused = suite.pytest("--dp-report", "mine.py/x/audit.md")
    assert refused.returncode == 4
    assert "--dp-report: report folder must be writable" in refused.stderr
    assert "test_kept" not in refused.stdout


def test_nothing_heavy_is_imported_where_no_audit_is_asked_for(shell):
    (shell.folder / "test_light.py").write_text(
        "import sys\n\n\ndef test_light():\n    assert not {'numpy', 'scipy', 'numba', "
        "'matplotlib'} & set(sys.modules)\n"
    )
    ran = shell.pytest("-p", "no:xdist", "-p", "no:hypothesispytest")
    assert ran.returncode == 0, ran.stdout


@pytest.mark.slow
def test_results_of_every_kind_are_asserted_and_reported(shell):
    (shell.folder / "test_kinds.py").write_text(KINDS)
    ran = shell.pytest("--dp-report", "out")
    assert counts(ran.stdout) == ("3", "5"), ran.stdout
    assert "VIOLATED: epsilon is at least 2 on this pair" in ran.stdout
    assert (
        "VIOLATED: the function moves by 1.25 times the claimed 0.2" in ran.stdout
        and "pair:    D0 = [" in ran.stdout
    )
    assert "PrivacyViolation: VIOLATED: mean error <= 0.9" in ran.stdout
    kinds = [
        r["kind"] for r in json.loads((shell.folder / "out" / "audit.json").read_text())["results"]
    ]
    assert sorted(set(kinds)) == ["sensitivity", "utility", "white box"] and len(kinds) == 7
    commands = set(re.findall(r"replay:  dpwitness (replay .+)", ran.stdout))
    assert len(commands) == 2  # the utility's error is a lambda
    assert sum(command.endswith(" --allow numpy:mean") for command in commands) == 1
    for command in commands:
        again = shell.dpwitness(*command.split())
        assert again.returncode == 1 and "the violation is confirmed" in again.stdout, again.stderr


UNAUDITED = """
import asyncio
import functools
import unittest

import pytest
from dpwitness import mechanisms as m

marked = pytest.mark.dp_audit(claim="pure:1", trials=20_000)


def broken():
    return m.Laplace(1.0, noise_multiplier=0.3)


@pytest.fixture
def skipping():
    pytest.skip("not today")


class TestUnit(unittest.TestCase):
    @marked
    def test_returned(self):
        return broken()

    @marked
    def test_yielded(self):
        yield broken()

    @marked
    def test_own_failure(self):
        raise ValueError("of the body")

    @marked
    def test_skipped(self):
        self.skipTest("not today")


@marked
class TestAsync(unittest.IsolatedAsyncioTestCase):
    async def test_async_method(self):
        return broken()


@marked
class TestClass:
    def test_violated(self):
        yield broken()

    def test_audited(self):
        yield m.RandomizedResponse(1.0)


@marked
async def test_async():
    return broken()


@marked
async def test_async_generator():
    yield broken()


def run_by_wrapper(function):
    @functools.wraps(function)
    def run():
        asyncio.run(function())

    return run


@marked
@run_by_wrapper
async def test_wrapped():
    return broken()


@marked
@pytest.mark.dp_audit(claim="pure:2", trials=20_000)
def test_two_markers():
    return m.RandomizedResponse(1.0)


@marked
def test_empty():
    return []


@marked
def test_skipped_by_fixture(skipping):
    return broken()


@pytest.mark.xfail
@marked
def test_expected():
    return broken()


@marked
def test_of_another_plugin():
    return broken()
"""

OTHER_ITEMS = '''
import pytest


class Entry(pytest.Item):
    def runtest(self):
        assert self.name != "wrong", "of the entry"


class Entries(pytest.File):
    def collect(self):
        for name in ("right", "wrong"):
            entry = Entry.from_parent(self, name=name)
            entry.add_marker(pytest.mark.dp_audit)
            yield entry


def pytest_collect_file(file_path, parent):
    return Entries.from_parent(parent, path=file_path) if file_path.suffix == ".yaml" else None


def pytest_collection_modifyitems(items):
    for item in items:
        if type(item).__name__ == "DoctestItem":
            item.add_marker(pytest.mark.dp_audit)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    return True if pyfuncitem.name == "test_of_another_plugin" else None


def documented():
    """
    >>> 1 + 1
    2
    """
'''


@pytest.mark.slow
def test_a_marked_item_of_any_kind_is_audited_or_fails(shell, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    (shell.folder / "test_unaudited.py").write_text(UNAUDITED)
    (shell.folder / "conftest.py").write_text(OTHER_ITEMS)
    (shell.folder / "entries.yaml").write_text("")
    ran = shell.pytest("--doctest-modules", "-rA", "-n", "2")
    outcomes = {
        name.partition(" ")[0]: (word, text)
        for word, name, text in re.findall(r"^([A-Z]+) \S*::(\S+)(.*)$", ran.stdout, re.M)
    }
    unaudited = {
        name
        for name, (word, text) in outcomes.items()
        if word == "FAILED" and "the marked test was not audited" in text
    }
    assert unaudited == {
        *(
            "test_returned",
            "test_yielded",
            "test_async_method",
            "test_async",
            "test_async_generator",
            "test_wrapped",
        ),
        *("test_of_another_plugin", "right", "conftest.documented"),
    }, ran.stdout
    other = {name: (word, text) for name, (word, text) in outcomes.items() if name not in unaudited}
    told = {
        "test_own_failure": "of the body",
        "test_violated": "VIOLATED",
        "test_two_markers": "carries the marker twice",
        "test_empty": "got none",
        "wrong": "of the entry",
    }
    assert {name for name, (word, _) in other.items() if word == "FAILED"} == set(told)
    assert all(text in other[name][1] for name, text in told.items())
    assert {name: word for name, (word, _) in other.items() if word != "FAILED"} == {
        "test_audited": "PASSED",
        "test_expected": "XFAIL",
    }
    assert "14 failed, 1 passed, 2 skipped, 1 xfailed" in ran.stdout


def test_marked_items_can_be_collected_without_an_audit(shell):
    (shell.folder / "test_unaudited.py").write_text(UNAUDITED)
    ran = shell.pytest("--collect-only", "-q")
    assert (
        ran.returncode == 0 and "tests collected" in ran.stdout and "not audited" not in ran.stdout
    )


PROJECT_TESTS = """
import numpy as np
import dpwitness as dpw

PAIR = dpw.Pair(np.array([0.0]), np.array([1.0]))

def leaky(dataset, size, rng):
    return dataset[0] + rng.laplace(0.0, 0.5, size)

def test_the_claim_of_the_project(dp_audit):
    assert str(dp_audit(leaky, pair=PAIR, trials=20_000, name="known").claim) == "pure:1"

def test_a_violation_that_is_not_accepted(dp_audit):
    dp_audit(leaky, pair=PAIR, trials=20_000, name="new")

def test_a_mechanism_has_its_own_claim(dp_audit):
    found = dp_audit(dpw.mechanisms.RandomizedResponse(2.0), trials=20_000)
    assert str(found.claim) == "pure:2" and found.confidence == 1 - 1e-9
"""


@pytest.mark.slow
def test_claim_and_accepted_findings_of_the_project(shell):
    """The claim is for mechanisms that have none; the confidence of tests stays as it is."""
    (shell.folder / "tests").mkdir()
    (shell.folder / "tests" / "test_them.py").write_text(PROJECT_TESTS)
    (shell.folder / "pyproject.toml").write_text(
        '[tool.dpwitness]\nclaim = "pure:1"\nconfidence = 0.5\nbaseline = "known.toml"\n'
    )
    entry = 'name = "known"\nclaim = "pure:1"\nreason = "a test"\nexpires = 2999-01-01\n'
    (shell.folder / "known.toml").write_text(f"[[accepted]]\n{entry}")
    shell.folder = shell.folder / "tests"
    found = shell.pytest("-q")
    assert "1 failed, 2 passed" in found.stdout
    assert "PrivacyViolation: VIOLATED: epsilon > 1." in found.stdout
