"""Assertions of privacy claims for test suites, behind the pytest plugin."""

from __future__ import annotations

import json
import os
import shlex
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dpwitness.auditors.audit import audit
from dpwitness.auditors.result import AuditResult, Verdict, strict
from dpwitness.auditors.witness import describe_target
from dpwitness.reports.report import result_json
from dpwitness.reports.wording import slugs

__all__ = ["Auditor", "NoVerdict", "PrivacyViolation"]

TRIALS = 200_000
CONFIDENCE = 1 - 1e-9


class PrivacyViolation(AssertionError):
    """A claim was refuted; `result` is the audit."""

    def __init__(self, message: str, result: AuditResult) -> None:
        super().__init__(message)
        self.result = result


class NoVerdict(AssertionError):
    """The mechanism could not be audited; `result` says why."""

    def __init__(self, message: str, result: AuditResult) -> None:
        super().__init__(message)
        self.result = result


class Auditor:
    """What the fixture `dp_audit` hands to a test: call it with a mechanism to assert its claim.

    Parameters
    ----------
    test : str
        The test's id, under which the audit is reported.
    keep : callable, optional
        Takes each result as JSON, for the merged report.
    folder : Path, optional
        Where a witness is written if the claim is violated.
    here : Path
        Directory that paths are shown relative to.
    """

    def __init__(self, test: str, keep: Callable[[dict[str, Any]], None] | None, folder: Path | None, here: Path) -> None:
        self._test, self._keep, self._folder, self._here = test, keep, folder, here
        self._audits = 0

    def __call__(self, mechanism: Any, **options: Any) -> AuditResult:
        """Audit `mechanism` and fail if its claim is violated, or if there is no verdict.

        Parameters
        ----------
        mechanism : Mechanism or callable
            As for `dpwitness.audit`, as are the keywords.
        **options
            ``claim``, ``pair``, ``domain``, ``trials`` (200,000), ``confidence`` (1 - 1e-9: the probability that a test of a
            private mechanism fails), ``seed`` (0), ``stop`` ("violation"), ``bits`` (False; True lets low bits fail the test too),
            ``executor``, ``name``, ``time_limit``.

        Returns
        -------
        AuditResult
        """
        __tracebackhide__ = True
        result = self._run(mechanism, **options)
        level = result.bit_level
        if result.verdict is Verdict.VIOLATED or (level is not None and level.verdict is Verdict.VIOLATED):
            raise PrivacyViolation(self._violation(result), result)
        if result.verdict in (Verdict.ERROR, Verdict.INCONCLUSIVE):
            raise NoVerdict(f"{result.headline()} (audit of {result.name}, claim {result.claim})", result)
        return result

    def _run(
        self,
        mechanism: Any,
        *,
        name: str | None = None,
        trials: int = TRIALS,
        confidence: float = CONFIDENCE,
        stop: str = "violation",
        bits: bool = False,
        **options: Any,
    ) -> AuditResult:
        options.setdefault("target", _target(mechanism, self._here))
        result = audit(mechanism, name=name, trials=trials, confidence=confidence, stop=stop, bits=bits, **options)
        self._audits += 1
        if self._keep is not None:
            data = result_json(result) | {"test": self._test}
            data.pop("seconds", None)  # the report is the same for any number of workers
            self._keep(strict(data))
        return result

    def _violation(self, result: AuditResult) -> str:
        lines = [result.headline()]
        if result.verdict is not Verdict.VIOLATED and result.bit_level is not None:
            lines = [f"VIOLATED in floating-point bits: epsilon > {result.bit_level.epsilon_lower:.4g} against the claim {result.claim}"]
        path = self._write(result)
        if result.pair is not None:
            lines.append(f"audited: {result.name}, relation {result.pair.relation}, {result.trials:,} runs, seed {result.seed}")
        lines.append(f"witness: {path}")
        if result.target is None:
            lines.append(f"replay:  dpwitness.replay({path!r}, mechanism=...), since the mechanism cannot be imported by name")
        else:
            lines.append(f"replay:  dpwitness replay {shlex.quote(path)}")
        return "\n".join(lines)

    def _write(self, result: AuditResult) -> str:
        folder = self._folder or Path(tempfile.mkdtemp(prefix="dpwitness-"))
        slug = slugs([self._test])[0]
        path = folder / f"witness-{slug}-{self._audits}.json"
        path.write_text(json.dumps(strict(result.witness), indent=1, allow_nan=False), encoding="utf-8")
        return _shown(path, self._here)


def _shown(path: Path, here: Path) -> str:
    relative = os.path.relpath(path, here)
    return str(path) if relative.startswith("..") else relative


def _target(mechanism: Any, here: Path) -> dict[str, Any] | None:
    """Where to find the mechanism again. What stands in a test file or conftest is named by its file: it is on nobody's import path."""
    found = describe_target(mechanism)
    if found is None:
        return None
    module, _, name = found["target"].partition(":")
    file = getattr(sys.modules.get(module), "__file__", None)
    base = Path(file).name if file else ""
    if file and (base.startswith("test_") or base.endswith("_test.py") or base == "conftest.py"):
        found["target"] = f"{_shown(Path(file).resolve(), here)}:{name}"
    return found
