"""Assertions of privacy claims in test suites: the implementation of the pytest plugin."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import dpwitness as dpw
from dpwitness import reports
from dpwitness.auditors import AuditResult, CertifyResult, Result, TraceResult
from dpwitness.auditors.witnesses.verdicts import Verdict, strict
from dpwitness.auditors.workers.descriptions import describe_target
from dpwitness.core.values.atomic_files import write_json
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument, error_text
from dpwitness.core.values.wording import dataset

R = TypeVar("R", bound=Result)

TRIALS = 200_000
CONFIDENCE = 1 - 1e-9


class _FailedAudit(AssertionError):
    def __init__(self, message: str, result: Result) -> None:
        super().__init__(message)
        self.result = result


class PrivacyViolation(_FailedAudit):
    """AssertionError of a refuted claim; `result` is the audit result."""


class NoVerdict(_FailedAudit):
    """AssertionError of an audit without a verdict; `result` holds the reason."""


class Auditor:
    """Object that the fixture `dp_audit` provides: called with a mechanism, it asserts the
    mechanism's privacy claim.

    Parameters
    ----------
    test : str
        Identifier of the test in the report.
    keep : callable, optional
        Called with each result as JSON, to build the merged report.
    folder : Path, optional
        Folder for witnesses of violated claims. A temporary folder by default.
    here : Path
        Directory relative to which paths are printed.
    claim : str, optional
        Claim of mechanisms that have none, where the test states none.
    accepted : sequence of Accepted
        Violations that do not fail the test.
    """

    def __init__(
        self,
        test: str,
        keep: Callable[[Json], None] | None,
        folder: Path | None,
        here: Path,
        claim: str | None = None,
        accepted: Sequence[reports.Accepted] = (),
    ) -> None:
        self._test, self._keep, self._folder, self._here = test, keep, folder, here
        self._claim, self._accepted = claim, accepted
        self._audits = 0

    def __call__(
        self, mechanism: Any, *, white_box: bool = False, **options: Any
    ) -> AuditResult | CertifyResult:
        """Audit `mechanism` and fail if its claim is violated or if the audit has no verdict.

        Parameters
        ----------
        mechanism : Mechanism or callable
            As for `dpwitness.audit`.
        white_box : bool
            Whether to enclose the privacy loss with `dpwitness.certify` instead.
        **options
            Keywords of `dpwitness.certify` if `white_box`, else of `dpwitness.audit`. Defaults:
            ``trials=200_000`` without ``seconds``, ``confidence=1 - 1e-9``, ``seed=0``; without
            `white_box` also ``stop="violation"`` and ``bits=False``. A test of a private mechanism
            fails with probability at most 1 - confidence. ``bits=True`` lets low-order bits fail
            the test too. Others are ``claim``, ``pair``, ``domain``, ``seconds``, ``clock``,
            ``executor``, ``name`` and ``time_limit``.

        Returns
        -------
        AuditResult, or CertifyResult if `white_box`

        Raises
        ------
        PrivacyViolation
            If the claim is violated.
        NoVerdict
            If the audit has no verdict.
        """
        __tracebackhide__ = True
        budget = {} if options.get("seconds") is not None else {"trials": TRIALS}
        common: dict[str, Any] = {
            **budget,
            "confidence": CONFIDENCE,
            "target": _locate_target(mechanism, self._here),
            "claim": self._claim_of(mechanism),
        }
        if white_box:
            return self.check(dpw.certify(mechanism, options.pop("pair", None), **common | options))
        return self.check(
            dpw.audit(mechanism, **common | {"stop": "violation", "bits": False} | options)
        )

    def trace(
        self,
        mechanism: Any,
        pair: Any = None,
        claim: Any = None,
        primitives: Any = None,
        **options: Any,
    ) -> TraceResult:
        """Trace `mechanism` and fail if the trace has findings, whether or not an audit confirms
        them.

        Parameters
        ----------
        mechanism, pair, claim, primitives, **options
            As for `dpwitness.trace`; the default of `confidence` is 1 - 1e-9.
        """
        __tracebackhide__ = True
        common: dict[str, Any] = {
            "confidence": CONFIDENCE,
            "target": _locate_target(mechanism, self._here),
        }
        claim = self._claim_of(mechanism) if claim is None else claim
        return self.check(dpw.trace(mechanism, pair, claim, primitives, **common | options))

    def _claim_of(self, mechanism: Any) -> str | None:
        """Return the project's claim for a mechanism that has none."""
        return self._claim if getattr(mechanism, "claim", None) is None else None

    def check(self, result: R) -> R:
        """Add a result of any kind (black box, white box, sensitivity, utility) to the report.

        Raise PrivacyViolation if the claim is violated, and NoVerdict if the result has no verdict.
        """
        __tracebackhide__ = True
        self._audits += 1
        (data,), _ = reports.apply_accepted(
            [reports.result_json(result, self._here)], self._accepted
        )
        if self._keep is not None:
            kept = data | {"test": self._test}
            # the report must not depend on the number of workers
            for key in ("seconds", "cpu_seconds"):
                kept.pop(key, None)
            self._keep(strict(kept))
        outcome = reports.outcome(data)
        if outcome == "violated":
            raise PrivacyViolation(self._violation_message(result, data), result)
        if outcome == "undecided":
            claim = getattr(result, "claim", None)
            raise NoVerdict(
                f"{result.headline()} (audit of "
                f"{result.name}{f', claim {claim}' if claim else ''})",
                result,
            )
        if self._folder is not None:
            self._witness_path(self._folder).unlink(missing_ok=True)  # written by an earlier run
        return result

    def _violation_message(self, result: Result, data: Json) -> str:
        """Return the failure message: headline, pair, witness path and replay command."""
        lines = [result.headline()]
        level = getattr(result, "bit_level", None)
        if result.verdict is not Verdict.VIOLATED and level is not None:
            lines = [
                f"VIOLATED in floating-point bits: epsilon > {level.epsilon_lower:.4g} "
                f"against the claim {data['claim']}"
            ]
        pair = data.get("pair")
        if pair:
            runs = f", {data['trials']:,} runs" if "trials" in data else ""
            lines += [
                f"audited: {result.name}, relation {pair['relation']}{runs}, seed {data['seed']}",
                f"pair:    D0 = {dataset(pair['d0'])}, D1 = {dataset(pair['d1'])}",
            ]
        if data["witness"] is None:
            return "\n".join(lines)
        try:
            file = self._witness_path(self._folder or Path(tempfile.mkdtemp(prefix="dpwitness-")))
            write_json(file, strict(data["witness"]))
        except (InvalidArgument, OSError) as error:
            return "\n".join([*lines, f"witness: could not be written: {error_text(error)}"])
        path = _display_path(file, self._here)
        lines.append(f"witness: {path}")
        if data["witness"]["target"] is None:
            lines.append(
                f"replay:  dpwitness.replay({path!r}, mechanism=...), since the mechanism "
                "cannot be imported by name"
            )
        else:
            scores = data["witness"].get("scores", ())
            lines.append(
                f"replay:  {reports.replay_command(path, data['witness']['target'], scores)}"
            )
        return "\n".join(lines)

    def _witness_path(self, folder: Path) -> Path:
        return folder / f"witness-{reports.slugs([self._test])[0]}-{self._audits}.json"


def _display_path(path: Path, here: Path) -> str:
    """Return a path relative to `here`, or the absolute path if it lies outside."""
    relative = os.path.relpath(path, here)
    return str(path) if relative.startswith("..") else relative


def _locate_target(mechanism: Any, here: Path) -> Json | None:
    """Return the importable location of a mechanism, or None; a test file, which is not on the
    import path, is named by its path.
    """
    location = describe_target(mechanism)
    if location is None:
        return None
    module, _, name = location["target"].partition(":")
    file = getattr(sys.modules.get(module), "__file__", None)
    base = Path(file).name if file else ""
    if file and (base.startswith("test_") or base.endswith("_test.py") or base == "conftest.py"):
        location["target"] = f"{_display_path(Path(file).resolve(), here)}:{name}"
    return location
