"""File formats: every kind of result is written in every format, read back, compared, and refused
when damaged.
"""

import contextlib
import json
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

import dpwitness as dpw

sys.path.insert(0, str(Path(__file__).parent))
from command_line import run

TARGETS = """
import math
import numpy as np


def weak(dataset, size, rng):
    return np.sum(dataset) + rng.laplace(0.0, 0.4, size)


def sound(dataset, size, rng):
    return np.round(1024 * (np.sum(dataset) + rng.laplace(0.0, 1.0, size))) / 1024


def broken(dataset, size, rng):
    raise RuntimeError("out of order")


def classic(epsilon, delta):
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def impute(rows):
    known = [value for value in rows if value is not None]
    mean = sum(known) / len(known) if known else 0.0
    return [mean if value is None else value for value in rows]


def same(d_in):
    return d_in


for f in (weak, sound, broken):
    f.claim, f.domain = "pure:1", {"kind": "Records", "size": 1, "low": 0.0, "high": 1.0}
NUMBERS = {"type": "vector", "dtype": "f64", "bounds": [0, 10], "nullable": True, "size": None}
METRICS = {"input_metric": "symmetric", "output_metric": "symmetric"}
TARGETS = {
    "classic": {"kind": "accountant", "mechanism": "gaussian", "parameters": {"epsilon": "epsilon", "delta": "delta"}, "returns": "noise"},
    "impute": {"kind": "transformation", "map": "same", "input": NUMBERS, **METRICS},
    "rows": {"kind": "metamorphic", "function": "impute", "row_wise": True, "input": NUMBERS},
}
"""
LAPLACE = ["dpwitness.mechanisms:Laplace", "--kwargs", '{"epsilon": 1.0}']
KINDS = {  # command, exit code, verdict
    "violated": (["audit", "kinds.py:weak", "--trials", "4000", "--in-process"], 1, "VIOLATED"),
    "sound": (["audit", "kinds.py:sound", "--trials", "4000", "--in-process"], 0, "NOT_REFUTED"),
    "error": (["audit", "kinds.py:broken", "--trials", "1000", "--in-process"], 3, "ERROR"),
    "sequential": (
        ["audit", "kinds.py:weak", "--sequential", "--trials", "60000", "--in-process"],
        1,
        "VIOLATED",
    ),
    "certified": (["audit", *LAPLACE, "--white-box"], 0, "CERTIFIED"),
    "trace": (["trace", "kinds.py:weak", "--trials", "4000", "--in-process"], 1, "VIOLATED"),
    "accountant": (["audit", "kinds.py:classic"], 1, "VIOLATED"),
    "stability": (["audit", "kinds.py:impute"], 1, "VIOLATED"),
    "metamorphic": (["audit", "kinds.py:rows"], 1, "VIOLATED"),
    "canaries": (["canaries", "scores.csv", "--claim", "approx:0.5,1e-5"], 1, "VIOLATED"),
}


@pytest.fixture(scope="module", params=KINDS)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("formats")
    (place / "kinds.py").write_text(TARGETS)
    lines = ["score,included", *(f"{k % 7 + 9.0 * (k % 2)},{k % 2}" for k in range(600))]
    (place / "scores.csv").write_text("\n".join(lines) + "\n")
    return place


def reported(folder, kind):
    """The folder of the report of a kind, which the first test that needs it makes."""
    if not (folder / kind).exists():
        command, expected, _ = KINDS[kind]
        with contextlib.chdir(folder):
            code, _, err = run(*command, "--report", kind)
        assert code == expected, err
    return folder / kind


def document(folder, kind):
    return json.loads((reported(folder, kind) / "audit.json").read_text(encoding="utf-8"))


@pytest.mark.slow_cases("sequential", "trace", "certified", "error")
def test_every_kind_has_every_format_with_its_verdict(folder, kind, tmp_path):
    verdict = KINDS[kind][2]
    (result,) = document(folder, kind)["results"]
    assert result["verdict"] == verdict and result["claim"] and result["headline"]
    code, _, err = run(
        "report",
        folder / kind / "audit.json",
        "--format",
        "html,junit,md,sarif,sp800-226",
        "--report",
        tmp_path,
    )
    assert code in (0, 1, 3) and not err.count("Traceback")
    word = verdict.replace("_", " ")
    assert word in (tmp_path / "audit.md").read_text(encoding="utf-8")
    page = (tmp_path / "audit.html").read_text(encoding="utf-8")
    assert (
        word in page
        and "http://" not in page.replace("http://www.w3.org", "")
        and "<script src" not in page
    )
    suite = ElementTree.parse(tmp_path / "audit.junit.xml").getroot()
    assert len(list(suite.iter("testcase"))) == 1
    assert bool(list(suite.iter("failure"))) == (verdict == "VIOLATED") and bool(
        list(suite.iter("error"))
    ) == (verdict == "ERROR")
    sarif = json.loads((tmp_path / "audit.sarif").read_text(encoding="utf-8"))
    assert sarif["version"] == "2.1.0" and bool(sarif["runs"][0]["results"]) == (
        verdict == "VIOLATED"
    )
    assert word in (tmp_path / "audit.sp800-226.md").read_text(encoding="utf-8")


def test_cards_show_the_numbers_of_the_results(folder):
    (audit,), (canaries,), (kept,) = (
        document(folder, kind)["results"] for kind in ("violated", "canaries", "sound")
    )
    tally, least = audit["tally"], audit["parameter_lower"]
    share = tally["correct"] / (tally["correct"] + tally["wrong"])
    right, guesses = canaries["guessed_right"], canaries["guesses"]
    detectable = kept["detectable"]
    for kind, expected in (
        ("violated", f"| certified | epsilon > {least:.4g}; {least:.4g} times the claim |"),
        ("violated", f"{tally['correct']:,} right ({share:.4%} of the guesses) and "),
        (
            "violated",
            f"{tally['wrong']:,} wrong guesses of the dataset, which was drawn by chance ",
        ),
        ("violated", f"| budget | {audit['trials']:,} runs of the mechanism"),
        ("violated", "confidence 0.99: the certified bound is too high with probability at most "),
        ("sound", f"epsilon = {detectable:.4g} ({detectable:.4g} times the claim), with probab"),
        ("canaries", f"{right:,} of {guesses:,} right ({right / guesses:.1%}); "),
        ("certified", "| epsilon | in [1, 1], both orders of the pair |"),
        ("accountant", "| exact figure, a rigorous lower bound | "),
        ("metamorphic", "| probability of a false finding | 0: an exact comparison |"),
    ):
        assert expected in (reported(folder, kind) / "audit.md").read_text(encoding="utf-8"), (
            expected
        )


def test_a_report_equals_itself_and_differs_from_another(folder, kind):
    path = reported(folder, kind) / "audit.json"
    code, out, _ = run("compare", path, path)
    assert code == 0 and "no " in out.lower()
    assert dpw.compare(path, path) is not None


@pytest.mark.slow_cases("sequential", "trace")
def test_every_violation_has_a_witness_that_its_kind_of_replay_confirms(folder, kind):
    found = list(reported(folder, kind).glob("witness-*.json"))
    assert len(found) == (KINDS[kind][2] == "VIOLATED")
    if not found:
        return
    (witness,) = found
    with contextlib.chdir(folder):
        code, out, err = run("replay", witness, "--allow", "kinds.py:weak")
        again, checked, _ = run("replay", witness, "--check")
    assert code == 1 and "VIOLATED" in out, err
    assert again in (0, 1, 3) and checked


@pytest.mark.parametrize(
    "damage", ["verdict", "bound", "claim", "truncated", "no json", "unknown field", "list"]
)
def test_a_damaged_document_is_refused_with_exit_code_2(folder, kind, damage, tmp_path):
    content = document(folder, kind)
    result = content["results"][0]
    if damage == "verdict":
        result["verdict"] = "CERTIFIED" if result["verdict"] != "CERTIFIED" else "NOT_REFUTED"
    elif damage == "bound":
        numbers = [
            key
            for key in (
                "parameter_lower",
                "epsilon_lower",
                "ratio",
                "figure",
                "error",
                "loss",
                "trials",
                "tried",
                "seed",
            )
            if key in result
        ]
        result[numbers[0]] = 77.5
    elif damage == "claim":
        result["claim"] = "pure:0.25"
    elif damage == "unknown field":
        result["surprise"] = 1
    text = {
        "truncated": json.dumps(content)[:-40],
        "no json": "audit",
        "list": json.dumps([content]),
    }.get(damage, json.dumps(content))
    path = tmp_path / "audit.json"
    path.write_text(text, encoding="utf-8")
    for command in (
        ["report", path, "--report", tmp_path / "out"],
        ["compare", path, folder / kind / "audit.json"],
    ):
        code, _, err = run(*command)
        assert code == 2 and err.startswith(f"dpwitness {command[0]}: ") and err.count("\n") == 1, (
            command[0],
            err,
        )


def test_a_trace_that_no_audit_confirms_is_read_back(folder, tmp_path):
    with contextlib.chdir(folder):
        trace = ("trace", "kinds.py:weak", "--no-confirm", "--in-process", "--report", tmp_path)
        assert run(*trace)[0] == 3
    assert run("report", tmp_path / "audit.json", "--show")[0] == 0
    (witness,) = tmp_path.glob("witness-*.json")
    assert json.loads(witness.read_text())["kind"] == "trace"


def test_a_report_does_not_follow_a_symbolic_link(folder, tmp_path):
    kept = tmp_path / "kept.txt"
    kept.write_text("mine")
    place = tmp_path / "out"
    place.mkdir()
    (place / "audit.md").symlink_to(kept)
    run("report", reported(folder, "sound") / "audit.json", "--report", place)
    assert kept.read_text() == "mine"


def test_texts_of_a_target_stay_text_in_every_format(folder, tmp_path):
    source = TARGETS.replace("def weak", "def wéak").replace("(weak,", "(wéak,")
    with contextlib.chdir(tmp_path):
        Path("named.py").write_text(source, encoding="utf-8")
        run("audit", "named.py:wéak", "--trials", "2000", "--in-process", "--report", "out")
        assert "wéak" in Path("out/audit.html").read_text(encoding="utf-8")
