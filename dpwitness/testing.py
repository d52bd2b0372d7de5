"""Assertions of privacy claims for test suites, behind the pytest plugin."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from dpwitness.auditors.black_box.audit import audit
from dpwitness.auditors.gray_box.trace import trace
from dpwitness.auditors.results.audit_result import AuditResult
from dpwitness.auditors.results.certify_result import CertifyResult
from dpwitness.auditors.results.trace_result import TraceResult
from dpwitness.auditors.results.verdicts import Result, Verdict, strict
from dpwitness.auditors.targets.naming import describe_target
from dpwitness.auditors.targets.trust import words_for
from dpwitness.auditors.white_box.certify import certify
from dpwitness.mechanisms.terms.reading import Json
from dpwitness.mechanisms.terms.validation import InvalidArgument, said
from dpwitness.mechanisms.terms.writing import write_json
from dpwitness.reports.audit.document import result_json
from dpwitness.reports.words.wording import dataset, slugs

R = TypeVar("R", bound=Result)

TRIALS = 200_000
CONFIDENCE = 1 - 1e-9


class PrivacyViolation(AssertionError):
    """A claim was refuted; `result` is the audit."""

    def __init__(self, message: str, result: Result) -> None:
        super().__init__(message)
        self.result = result


class NoVerdict(AssertionError):
    """The mechanism could not be audited; `result` says why."""

    def __init__(self, message: str, result: Result) -> None:
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

    def __init__(self, test: str, keep: Callable[[Json], None] | None, folder: Path | None, here: Path) -> None:
        self._test, self._keep, self._folder, self._here = test, keep, folder, here
        self._audits = 0

    def __call__(self, mechanism: Any, *, white_box: bool = False, **options: Any) -> AuditResult | CertifyResult:
        """Audit `mechanism` and fail if its claim is violated, or if there is no verdict.

        Parameters
        ----------
        mechanism : Mechanism or callable
            As for `dpwitness.audit`, as are the keywords.
        white_box : bool
            Enclose the privacy loss with `dpwitness.certify` instead, which takes the keywords then.
        **options
            ``claim``, ``pair``, ``domain``, ``trials`` (200,000), ``confidence`` (1 - 1e-9: the probability that a test of a
            private mechanism fails), ``seed`` (0), ``stop`` ("violation"), ``bits`` (False; True lets low bits fail the test too),
            ``executor``, ``name``, ``time_limit``.

        Returns
        -------
        AuditResult, or CertifyResult if `white_box`
        """
        __tracebackhide__ = True
        common: dict[str, Any] = {"trials": TRIALS, "confidence": CONFIDENCE, "target": _target(mechanism, self._here)}
        if white_box:
            return self.check(certify(mechanism, options.pop("pair", None), **common | options))
        return self.check(audit(mechanism, **common | {"stop": "violation", "bits": False} | options))

    def trace(self, mechanism: Any, pair: Any = None, claim: Any = None, primitives: Any = None, **options: Any) -> TraceResult:
        """Trace `mechanism` and fail if anything is found, confirmed by an audit or not.

        Parameters
        ----------
        mechanism, pair, claim, primitives, **options
            As for `dpwitness.trace`; its `confidence` is 1 - 1e-9 where none is given.
        """
        __tracebackhide__ = True
        common: dict[str, Any] = {"confidence": CONFIDENCE, "target": _target(mechanism, self._here)}
        return self.check(trace(mechanism, pair, claim, primitives, **common | options))

    def check(self, result: R) -> R:
        """Take a result of any kind (black box, white box, sensitivity, utility) to the report; fail if violated or without a verdict."""
        __tracebackhide__ = True
        self._audits += 1
        if self._keep is not None:
            data = result_json(result, self._here) | {"test": self._test}
            data.pop("seconds", None)  # the report is the same for any number of workers
            self._keep(strict(data))
        level = getattr(result, "bit_level", None)
        if result.verdict is Verdict.VIOLATED or (level is not None and level.verdict is Verdict.VIOLATED):
            raise PrivacyViolation(self._violation(result), result)
        if result.verdict in (Verdict.ERROR, Verdict.INCONCLUSIVE):
            claim = getattr(result, "claim", None)
            raise NoVerdict(f"{result.headline()} (audit of {result.name}{f', claim {claim}' if claim else ''})", result)
        if self._folder is not None:
            self._witness(self._folder).unlink(missing_ok=True)  # of an earlier run
        return result

    def _violation(self, result: Result) -> str:
        lines = [result.headline()]
        data = result_json(result)
        level = getattr(result, "bit_level", None)
        if result.verdict is not Verdict.VIOLATED and level is not None:
            lines = [f"VIOLATED in floating-point bits: epsilon > {level.epsilon_lower:.4g} against the claim {data['claim']}"]
        pair = data.get("pair")
        if pair:
            runs = f", {data['trials']:,} runs" if "trials" in data else ""
            lines.append(f"audited: {result.name}, relation {pair['relation']}{runs}, seed {data['seed']}")
            lines.append(f"pair:    D0 = {dataset(pair['d0'])}, D1 = {dataset(pair['d1'])}")
        if data["witness"] is None:
            return "\n".join(lines)
        try:
            path = self._write(data["witness"])
        except (InvalidArgument, OSError) as error:
            return "\n".join([*lines, f"witness: could not be written: {said(error)}"])
        lines.append(f"witness: {path}")
        if data["witness"]["target"] is None:
            lines.append(f"replay:  dpwitness.replay({path!r}, mechanism=...), since the mechanism cannot be imported by name")
        else:
            words = [part for word in words_for(data["witness"]["target"], data["witness"].get("scores", ())) for part in ("--allow", word)]
            lines.append(f"replay:  {shlex.join(['dpwitness', 'replay', path, *words])}")
        return "\n".join(lines)

    def _write(self, witness: Json) -> str:
        folder = self._folder or Path(tempfile.mkdtemp(prefix="dpwitness-"))
        path = self._witness(folder)
        write_json(path, strict(witness))
        return _shown(path, self._here)

    def _witness(self, folder: Path) -> Path:
        return folder / f"witness-{slugs([self._test])[0]}-{self._audits}.json"


def _shown(path: Path, here: Path) -> str:
    relative = os.path.relpath(path, here)
    return str(path) if relative.startswith("..") else relative


def _target(mechanism: Any, here: Path) -> Json | None:
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
