"""A new kind of audit in one file: the range of a function's outputs. Reports, formats, comparison,
witness and replay know it by its `Kind` alone.
"""

import json
from dataclasses import dataclass
from typing import ClassVar

import pytest

import dpwitness as dpw
from dpwitness.auditors.witnesses import kinds
from dpwitness.auditors.witnesses.kinds import (
    Fact,
    Kind,
    Measure,
    Recomputed,
    require_verdict,
    run_facts,
)
from dpwitness.auditors.witnesses.result import FunctionResult, named
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.cli import main
from dpwitness.core.values.json_reader import number
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.reports import write_report


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class RangeResult(FunctionResult):
    kind: ClassVar[str] = "range"

    most: float
    largest: float
    at: float

    def _claim_text(self):
        return f"outputs of at most {self.most:g}"

    def _summary(self):
        return f"the output at {self.at:g} is {self.largest:g}"

    def _fields(self):
        return {"most": self.most, "largest": self.largest, "at": self.at}

    def _witness_fields(self):
        return {"most": self.most, "at": self.at} if self.verdict is Verdict.VIOLATED else None


def audit_range(function, most, inputs):
    at = max(inputs, key=function)
    verdict = Verdict.VIOLATED if function(at) > most else Verdict.NOT_REFUTED
    fields = {"most": most, "largest": function(at), "at": at}
    name, target = function.__name__, named(function)
    return RangeResult(name=name, verdict=verdict, target=target, subject=function, **fields)


def _recompute(result):
    exceeded = result["largest"] > result["most"]
    require_verdict(result, Verdict(result["verdict"]), exceeded, f"{result['largest']}")
    return Recomputed(True)


KIND = Kind(
    name="range",
    facts=lambda result: [Fact("largest output", f"{result['largest']:g}"), *run_facts(result)],
    advice={"VIOLATED": "clip the outputs."},
    untested=lambda results: ["Inputs that an audit of the range did not try."],
    measure=Measure("output", "largest", "largest", "largest", "{largest} of {most}"),
    recompute=_recompute,
    witness=({}, {"most": number(), "at": number()}),
    replay=lambda case, function, options: (
        audit_range(function, case.raw["most"], [case.raw["at"]]),
        "replay of a range witness",
        (),
    ),
    draws=False,
    again="on the same input",
)


def squared(x):
    return x * x


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(kinds, "_KINDS", {**kinds._KINDS, "range": KIND})
    results = [audit_range(squared, most, [1.0, -3.0, 2.0]) for most in (4.0, 16.0)]
    assert [result.verdict.value for result in results] == ["VIOLATED", "NOT_REFUTED"]
    write_report(results, tmp_path, title="t")
    return tmp_path


def test_every_format_shows_it(folder):
    formats = "html,junit,md,sarif,sp800-226"
    assert main(["report", str(folder / "audit.json"), "--format", formats]) == 0
    for name in ("audit.md", "audit.html", "audit.sp800-226.md"):
        text = (folder / name).read_text()
        assert "Inputs that an audit of the range did not try." in text
        assert "VIOLATED: the output at -3 is 9" in text
    page = (folder / "audit.md").read_text()
    assert "| largest output | 9 |" in page and "clip the outputs." in page and "9 of 4" in page
    alerts = json.loads((folder / "audit.sarif").read_text())["runs"][0]["results"]
    assert len(alerts) == 1 and "the output at -3 is 9" in alerts[0]["message"]["text"]
    assert audit_range(squared, 4.0, [3.0])._repr_html_()


def test_a_witness_is_replayed(folder):
    (file,) = folder.glob("witness-*.json")
    result = dpw.replay(file, mechanism=squared)
    assert result.verdict is Verdict.VIOLATED and result.at == -3.0
    with pytest.raises(InvalidArgument, match="most must be a finite number"):
        dpw.replay(json.loads(file.read_text()) | {"most": "4"}, mechanism=squared)


def test_reports_are_compared_and_edits_are_found(folder):
    document = json.loads((folder / "audit.json").read_text())
    changed = json.loads(json.dumps(document))
    changed["results"][1] |= {"largest": 12.0}
    del changed["results"][1]["sha256"]
    (rose,) = [row for row in dpw.compare(document, changed).rows if "rose" in row.changes]
    assert rose.moves[0].old.reported == 9.0 and rose.moves[0].new.reported == 12.0
    changed["results"][1] |= {"largest": 20.0}
    with pytest.raises(
        InvalidArgument, match="gives VIOLATED, but the document states NOT_REFUTED"
    ):
        dpw.compare(document, changed)
