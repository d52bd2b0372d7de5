"""Pytest plugin for privacy audits: fixtures `dp_audit`, `dp_trace` and `dp_check`, the marker
`dp_audit`, and one merged report.

The report also works under pytest-xdist. Every pytest run in an environment with dpwitness loads
this plugin, so heavy modules are imported only when an audit runs.
"""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

import dpwitness as dpw
from dpwitness import reports
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.project import project_table

if TYPE_CHECKING:
    from dpwitness.testing import Auditor

# results of a test item that are not yet attached to a test report
_PENDING_AUDITS = pytest.StashKey[list[Json]]()
_MERGED_REPORT = pytest.StashKey["_MergedReport"]()
_AUDITED = pytest.StashKey[bool]()  # whether what a marked item returned or yielded was audited

_MARKER = (
    "dp_audit(claim=None, pair=None, domain=None, trials=..., confidence=1-1e-9, seed=0, "
    "white_box=False, ...): the test returns, or "
    "yields, a mechanism or several, whose privacy claim is asserted"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register the option ``--dp-report FILE``."""
    group = parser.getgroup("dpwitness", "differential privacy audits")
    group.addoption(
        "--dp-report",
        metavar="FILE",
        default=None,
        help="write one report over all audits, such as out/audit.md",
    )
    group.addoption(
        "--dp-discover",
        metavar="FILE",
        default=None,
        help="write the calls of functions that draw noise to FILE, for dpwitness scan --calls",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker and, on the xdist controller, check that the report's folder is writable
    before any test runs.
    """
    config.addinivalue_line("markers", _MARKER)
    place = config.getoption("--dp-report")
    if place is not None and not hasattr(config, "workerinput"):
        merged = _MergedReport(config.invocation_params.dir / place, place)
        config.stash[_MERGED_REPORT] = merged
        config.pluginmanager.register(merged, "dpwitness-report")
    if config.getoption("--dp-discover") is not None:
        config.pluginmanager.register(_Discovery(config), "dpwitness-discovery")
    if config.getoption("xmlpath", None) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_SuiteProperties(config), "dpwitness-junit")


@pytest.fixture
def dp_audit(request: pytest.FixtureRequest) -> Auditor:
    """Return a function ``dp_audit(mechanism, claim=..., pair=..., trials=...)`` that audits and
    returns the AuditResult.

    The function fails the test if the claim is violated.
    """
    return _auditor(request.node)


@pytest.fixture
def dp_trace(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Return a function ``dp_trace(mechanism, pair, claim, primitives=...)`` that traces and
    returns the TraceResult.

    The function fails the test if the trace has findings.
    """
    return _auditor(request.node).trace


@pytest.fixture
def dp_check(request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    """Return a function ``dp_check(result)`` that reports a result of any kind.

    The function fails the test if the result is VIOLATED or has no verdict.
    """
    return _auditor(request.node).check


def _auditor(item: pytest.Item) -> Auditor:
    """Return the auditor of a test item; its results are collected if a report or JUnit XML was
    requested.
    """
    from dpwitness.testing import Auditor

    audits_found = item.stash.setdefault(_PENDING_AUDITS, [])
    collecting = item.config.getoption("--dp-report") is not None or bool(
        item.config.getoption("xmlpath", None)
    )
    cache = getattr(item.config, "cache", None)  # keeps the witnesses of failed audits
    _, table = project_table(item.config.invocation_params.dir)
    baseline = table.get("baseline")
    return Auditor(
        item.nodeid,
        audits_found.append if collecting else None,
        Path(cache.mkdir("dpwitness")) if cache is not None else None,
        item.config.invocation_params.dir,
        table.get("claim"),
        () if baseline is None else reports.read_accepted(baseline),
    )


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class, name: str, obj: object
) -> Any:
    """Collect a marked generator function as a test; pytest itself rejects generator tests."""
    if not inspect.isgeneratorfunction(obj) or not collector.istestfunction(obj, name):
        return None
    marked = any(
        mark.name == "dp_audit" for mark in getattr(obj, "pytestmark", [])
    ) or collector.get_closest_marker("dp_audit")
    return list(collector._genfunctions(name, obj)) if marked else None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Fail an item of any kind that carries the marker and would pass without an audit."""
    __tracebackhide__ = True
    item.stash[_AUDITED] = False
    result = yield
    if item.get_closest_marker("dp_audit") is not None and not item.stash[_AUDITED]:
        _fail_unaudited(
            "a test that another plugin runs"
            if type(item) is pytest.Function
            else f"an item of type {type(item).__name__}"
        )
    return result


_NO_MECHANISM = "dp_audit: the marked test must return or yield a mechanism, got none"


def _fail_unaudited(kind: str) -> NoReturn:
    pytest.fail(
        "dp_audit: the marked test was not audited: the marker audits what a plain function "
        f"or method returns or yields, not {kind}: "
        "remove the marker and call the fixture dp_audit",
        pytrace=False,
    )


def _misuse(item: pytest.Function, marker: pytest.Mark) -> str:
    """Return what is wrong with the marker of a test; an empty text if nothing is."""
    nodes = [node for node, _ in item.iter_markers_with_node("dp_audit")]
    if nodes.count(nodes[0]) > 1:
        return "the test carries the marker twice: write a test for each claim"
    if marker.args:
        return f"the marker takes keywords only, got {marker.args!r}"
    try:
        if isinstance(marker.kwargs.get("claim"), str):
            dpw.parse_claim(marker.kwargs["claim"])
    except InvalidArgument as error:
        return str(error)
    return ""


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a marked test: call the test function to get its mechanism, then audit the mechanism."""
    marker = pyfuncitem.get_closest_marker("dp_audit")
    if marker is None:
        return None
    problem = _misuse(pyfuncitem, marker)
    if problem:  # outside a handler: pytest would also show the handled error
        pytest.fail(f"dp_audit: {problem}", pytrace=False)
    # a plugin may have wrapped a coroutine function in a plain function
    function = inspect.unwrap(pyfuncitem.obj)
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        _fail_unaudited("an async function")
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    returned = pyfuncitem.obj(**arguments)
    steps = returned
    if not inspect.isgenerator(returned):
        steps = returned if isinstance(returned, list | tuple) else [returned]
    auditor, count, refuted = _auditor(pyfuncitem), 0, list[str]()
    # exhaust the generator: code after a yield runs too
    for count, mechanism in enumerate(steps, start=1):
        if mechanism is None:
            pytest.fail(_NO_MECHANISM, pytrace=False)
        name = pyfuncitem.name if count == 1 else f"{pyfuncitem.name}-{count}"
        try:
            auditor(mechanism, name=name, **marker.kwargs)
        except AssertionError as error:
            if not hasattr(error, "result"):
                raise
            refuted.append(str(error))
    if count == 0:
        pytest.fail(_NO_MECHANISM, pytrace=False)
    pyfuncitem.stash[_AUDITED] = True
    if refuted:
        pytest.fail("\n\n".join(refuted), pytrace=False)
    return True


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, Any, None]:
    """Attach the audits to the test's report as JSON text, which xdist sends from a worker to the
    controller.
    """
    audits_found = item.stash.get(_PENDING_AUDITS, [])
    outcome = yield
    if audits_found:
        outcome.get_result().dp_audits = [json.dumps(data) for data in audits_found]
        audits_found.clear()


# names of properties in the JUnit XML report, and the fields of a result
_PROPERTIES = {
    "verdict": "verdict",
    "claim": "claim",
    "certified": "parameter_lower",
    "detectable": "detectable",
    "confidence": "confidence",
}


class _SuiteProperties:
    """Plugin on the controller that writes audits to JUnit XML as properties of the suite, each
    under the name of its test: the schema has none for a test case.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # the fixture record_testsuite_property would write to nothing in a worker
        from _pytest.junitxml import xml_key

        xml = self.config.stash.get(xml_key, None)
        attached = getattr(report, "dp_audits", [])
        if xml is None:
            return
        for i, text in enumerate(attached, start=1):
            data = json.loads(text)
            place = "dpwitness" if len(attached) == 1 else f"dpwitness.{i}"
            for name, key in _PROPERTIES.items():
                if data.get(key) is not None:
                    test = reports.line(report.nodeid, 500)
                    xml.add_global_property(f"{test} {place}.{name}", reports.line(data[key], 200))


class _MergedReport:
    """Plugin on the controller that collects the results of all tests and workers and writes one
    report.
    """

    def __init__(self, path: Path, place: str) -> None:
        self.place, self.results, self.summary = place, dict[str, list[Json]](), ""
        self.folder, self.stem = path, "audit"
        if path.suffix == ".md":
            self.folder, self.stem = path.parent, path.stem
        try:
            reports.check_writable(self.folder)
        except InvalidArgument as error:
            raise pytest.UsageError(f"--dp-report: {error}") from None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Store the audits of a test; a repeated test replaces its earlier results."""
        attached = getattr(report, "dp_audits", [])
        if report.when == "setup":
            self.results[report.nodeid] = []
        if attached:
            self.results[report.nodeid] += map(json.loads, attached)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Write the report in the order of test names, for any number of workers.

        A run without audits leaves an existing report unchanged.
        """
        merged = [data for node in sorted(self.results) for data in self.results[node]]
        ended_early = (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR)
        broken_off = exitstatus in ended_early or bool(session.shouldstop)
        untouched = ""
        if session.config.option.collectonly:
            untouched = "tests were only collected"
        elif not merged and (broken_off or (self.folder / f"{self.stem}.md").exists()):
            untouched = "no audit was run"
        if untouched:
            self.summary = f"{untouched}: the report was not written, {self.place} is unchanged"
            return
        from dpwitness.terminal import try_to_write

        cut = " (interrupted: finished audits only)" if broken_off else ""
        title, command = f"Audits{cut}", f"pytest --dp-report {self.place}"
        written, write_failed = try_to_write(
            "report",
            lambda: reports.write_report(
                merged, self.folder, title=title, command=command, stem=self.stem
            ),
        )
        if written is not None:
            broken = sum(data["verdict"] == "VIOLATED" for data in merged)
            violated = f", {broken} violated" if broken else ""
            self.summary = f"audits: {len(merged)}{cut}{violated}; report: {self.place}"
        if write_failed and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.INTERNAL_ERROR
        file = reports.summary_file()
        if file is not None:
            document = reports.build_document(merged, title=title, command=command)
            try_to_write("summary", lambda: reports.append_summary(document, file))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the number of audits and the path of the report."""
        if self.summary:
            terminalreporter.section("dpwitness")
            terminalreporter.line(self.summary)


class _Discovery:
    """Recorder of calls of the functions that draw noise in the files below pytest's root."""

    def __init__(self, config: pytest.Config) -> None:
        from dpwitness.auditors.scanning.calls import wanted
        from dpwitness.auditors.scanning.proposals import mechanisms
        from dpwitness.auditors.scanning.scan import mapped
        from dpwitness.mechanisms.wrappers.programs.inside.function_calls import CallKeeper, Plugin

        if hasattr(config, "workerinput"):
            raise pytest.UsageError("--dp-discover needs one process: leave -n out")
        self.file = config.invocation_params.dir / config.getoption("--dp-discover")
        self.calls: list[Json] = []
        found, _ = mapped([config.rootpath])
        recorder = CallKeeper(wanted(found, mechanisms(found)), self.calls.append)
        config.pluginmanager.register(Plugin(recorder, math.inf, pytest.exit), "dpwitness-recorder")

    def pytest_sessionfinish(self) -> None:
        """Write the calls."""
        from dpwitness.core.values.atomic_files import write_json

        self.file.parent.mkdir(parents=True, exist_ok=True)
        write_json(self.file, {"schema_version": 1, "calls": self.calls})
