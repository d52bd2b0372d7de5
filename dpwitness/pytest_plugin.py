"""Audits as tests: fixtures `dp_audit`, `dp_trace` and `dp_check`, the marker `dp_audit`, and one report over all, also under xdist.

The plugin is loaded by every pytest run in an environment with dpwitness: it imports nothing heavy until an audit is asked for.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dpwitness.mechanisms.terms.reading import Json

if TYPE_CHECKING:
    from dpwitness.testing import Auditor

_FOUND = pytest.StashKey[list[Json]]()  # of an item: results that no report has taken along yet
_REPORT = pytest.StashKey["_Merged"]()

_MARKER = (
    "dp_audit(claim=None, pair=None, domain=None, trials=..., confidence=1-1e-9, seed=0, white_box=False, ...): the test returns, or "
    "yields, a mechanism or several, whose privacy claim is asserted"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--dp-report FILE``."""
    group = parser.getgroup("dpwitness", "differential privacy audits")
    group.addoption("--dp-report", metavar="FILE", default=None, help="write one report over all audits, such as out/audit.md")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker; on the controller, try the report's folder before anything is run."""
    config.addinivalue_line("markers", _MARKER)
    place = config.getoption("--dp-report")
    if place is not None and not hasattr(config, "workerinput"):
        merged = _Merged(config.invocation_params.dir / place, place)
        config.stash[_REPORT] = merged
        config.pluginmanager.register(merged, "dpwitness-report")
    if config.getoption("xmlpath", None) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Properties(config), "dpwitness-junit")


@pytest.fixture
def dp_audit(request: pytest.FixtureRequest) -> Auditor:
    """``dp_audit(mechanism, claim=..., pair=..., trials=...)`` fails the test if the claim is violated; returns the AuditResult."""
    return _auditor(request.node)


@pytest.fixture
def dp_trace(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """``dp_trace(mechanism, pair, claim, primitives=...)`` fails the test if the trace finds anything; returns the TraceResult."""
    return _auditor(request.node).trace


@pytest.fixture
def dp_check(request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    """``dp_check(result)`` takes a result of any kind to the report and fails the test if it is VIOLATED or without a verdict."""
    return _auditor(request.node).check


def _auditor(item: pytest.Item) -> Auditor:
    from dpwitness.testing import Auditor

    found = item.stash.setdefault(_FOUND, [])
    wanted = item.config.getoption("--dp-report") is not None or bool(item.config.getoption("xmlpath", None))
    return Auditor(item.nodeid, found.append if wanted else None, _witness_folder(item.config), item.config.invocation_params.dir)


def _witness_folder(config: pytest.Config) -> Path | None:
    """Where a failed audit leaves its witness: pytest's cache."""
    cache = getattr(config, "cache", None)
    return Path(cache.mkdir("dpwitness")) if cache is not None else None


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Module | pytest.Class, name: str, obj: object) -> Any:
    """A marked generator is an audit that yields its mechanism; pytest would refuse it as a test."""
    marks = getattr(obj, "pytestmark", [])
    if inspect.isgeneratorfunction(obj) and any(mark.name == "dp_audit" for mark in marks) and collector.istestfunction(obj, name):
        return list(collector._genfunctions(name, obj))
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a marked test: call it for its mechanism, and audit that."""
    marker = pyfuncitem.get_closest_marker("dp_audit")
    if marker is None:
        return None
    _check_marked_claim(marker.kwargs.get("claim"))
    if marker.args:
        pytest.fail(f"dp_audit: the marker takes keywords only, got {marker.args!r}", pytrace=False)
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    made = pyfuncitem.obj(**arguments)
    if made is None:
        pytest.fail("dp_audit: the marked test must return or yield a mechanism, got None", pytrace=False)
    steps = made if inspect.isgenerator(made) else iter(made if isinstance(made, list | tuple) else [made])
    auditor, count, refuted = _auditor(pyfuncitem), 0, list[str]()
    for count, mechanism in enumerate(steps, start=1):  # to the end: what stands behind a yield runs too
        name = pyfuncitem.name if count == 1 else f"{pyfuncitem.name}-{count}"
        try:
            auditor(mechanism, name=name, **marker.kwargs)
        except AssertionError as error:
            if not hasattr(error, "result"):
                raise
            refuted.append(str(error))
    if count == 0:
        pytest.fail("dp_audit: the marked test must return or yield a mechanism, got none", pytrace=False)
    if refuted:
        pytest.fail("\n\n".join(refuted), pytrace=False)
    return True


def _check_marked_claim(claim: Any) -> None:
    """Fail in one line for a claim that cannot be read."""
    if isinstance(claim, str):
        from dpwitness.mechanisms.terms.notions import parse_claim
        from dpwitness.mechanisms.terms.validation import InvalidArgument

        wrong = ""
        try:
            parse_claim(claim)
        except InvalidArgument as error:
            wrong = str(error)
        if wrong:  # outside of the handler, whose error would be shown too
            pytest.fail(f"dp_audit: {wrong}", pytrace=False)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
    """Give the test's report its audits to carry, as text: that is how they travel from a worker to the controller."""
    found = item.stash.get(_FOUND, [])
    if found and item.config.getini("junit_family") in _WITH_PROPERTIES:
        item.user_properties += _properties(found)
    outcome = yield
    if found:
        outcome.get_result().dp_audits = [json.dumps(data) for data in found]
        found.clear()


_WITH_PROPERTIES = ("xunit1", "legacy")  # the schema of xunit2 has no properties of a test case, only of the suite


def _properties(audits: list[Json]) -> list[tuple[str, str]]:
    """What the XML tells of a test's audits."""
    from dpwitness.reports.words.wording import line

    keys = {"verdict": "verdict", "claim": "claim", "certified": "parameter_lower", "detectable": "detectable", "confidence": "confidence"}
    found = []
    for i, data in enumerate(audits, start=1):
        place = "dpwitness" if len(audits) == 1 else f"dpwitness.{i}"
        found += [(f"{place}.{name}", line(data[key], 200)) for name, key in keys.items() if data.get(key) is not None]
    return found


class _Properties:
    """What ``--junitxml`` tells of audits, written on the controller: for the suite, each under the name of its test."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        from _pytest.junitxml import xml_key  # the fixture record_testsuite_property would write to nothing in a worker

        xml = self.config.stash.get(xml_key, None)
        carried = getattr(report, "dp_audits", None)
        if xml is None or not carried or self.config.getini("junit_family") in _WITH_PROPERTIES:
            return
        from dpwitness.reports.words.wording import line

        for name, value in _properties([json.loads(text) for text in carried]):
            xml.add_global_property(f"{line(report.nodeid, 500)} {name}", value)


class _Merged:
    """The one report, on the controller: results by test, whichever worker they came from and in whatever order."""

    def __init__(self, path: Path, place: str) -> None:
        self.place, self.results = place, dict[str, list[Json]]()
        self.folder, self.stem = (path.parent, path.stem) if path.suffix == ".md" else (path, "audit")
        self.written: Path | None = None
        self.untouched, self.cut = "", ""
        from dpwitness.mechanisms.terms.validation import InvalidArgument
        from dpwitness.reports.audit.report import check_writable

        try:
            check_writable(self.folder)
        except InvalidArgument as error:
            raise pytest.UsageError(f"--dp-report: {error}") from None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test that is run again replaces what it found before."""
        carried = getattr(report, "dp_audits", None)
        if report.when == "setup":
            self.results[report.nodeid] = []
        if carried:
            self.results[report.nodeid] += [json.loads(text) for text in carried]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Write it, in the order of the tests' names, for any number of workers. A run without audits leaves a report as it was."""
        merged = [data for node in sorted(self.results) for data in self.results[node]]
        broken_off = exitstatus in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR) or bool(session.shouldstop)
        self.cut = " (interrupted: only those that had ended)" if broken_off else ""
        if session.config.option.collectonly:
            self.untouched = "tests were only collected"
        elif not merged and (broken_off or (self.folder / f"{self.stem}.md").exists()):
            self.untouched = "no audit was run"
        if self.untouched:
            return
        from dpwitness.ending import attempt
        from dpwitness.reports.audit.document import document_of
        from dpwitness.reports.audit.report import write_report
        from dpwitness.reports.formats.step_summary import append_summary, summary_file

        title, command = f"Audits{self.cut}", f"pytest --dp-report {self.place}"
        more: Any = {"title": title, "command": command, "stem": self.stem}
        self.written, lost = attempt("report", lambda: write_report(merged, self.folder, **more))
        if lost and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.INTERNAL_ERROR
        file = summary_file()
        if file is not None:
            attempt("summary", lambda: append_summary(document_of(merged, title=title, command=command), file))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """How many audits, and where the report lies."""
        if self.written is None and not self.untouched:
            return
        terminalreporter.section("dpwitness")
        if self.untouched:
            terminalreporter.line(f"{self.untouched}: the report was not written, {self.place} is as it was")
            return
        merged = [data for found in self.results.values() for data in found]
        broken = sum(data["verdict"] == "VIOLATED" for data in merged)
        terminalreporter.line(f"{len(merged)} audits{self.cut}, {broken} violated; report: {self.place}")
