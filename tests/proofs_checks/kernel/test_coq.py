"""Tests of the proofs in Coq: they build, depend on the published axioms only, and their program
agrees with checker.py.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

COQ = Path(__file__).parents[3] / "proofs_checks" / "kernel" / "coq"
STANDARD_AXIOMS = {
    "ClassicalDedekindReals.sig_forall_dec",
    "ClassicalDedekindReals.sig_not_dec",
    "FunctionalExtensionality.functional_extensionality_dep",
}


def run_make(target, folder):
    return subprocess.run(
        ["make", "-C", str(COQ), f"OUT={folder}", target],
        capture_output=True,
        text=True,
        check=False,
        timeout=800,
    )


def test_published_axioms_are_those_of_the_real_numbers():
    text = (COQ / "assumptions.txt").read_text(encoding="utf-8")
    theorems = (COQ / "Assumptions.v").read_text(encoding="utf-8").count("Print Assumptions")
    assert text.count("Axioms:") + text.count("Closed under the global context") == theorems
    assert set(re.findall(r"^([A-Z]\S*)$|^([A-Z]\S*) : ", text, re.MULTILINE)) <= {
        (name, "") for name in STANDARD_AXIOMS
    } | {("", name) for name in STANDARD_AXIOMS} | {("Axioms:", "")}


def test_proofs_have_no_gaps():
    for path in COQ.glob("*.v"):
        assert not re.search(
            r"\b(Admitted|admit|Axiom|Parameter|Conjecture)\b", path.read_text(encoding="utf-8")
        ), path.name


@pytest.mark.coq
@pytest.mark.skipif(shutil.which("coqc") is None, reason="needs Coq 8.16 (Debian: apt install coq)")
def test_proofs_build_with_the_published_axioms(tmp_path):
    result = run_make("all", tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.coq
@pytest.mark.skipif(shutil.which("coqc") is None, reason="needs Coq 8.16 (Debian: apt install coq)")
@pytest.mark.skipif(
    shutil.which("ocamlfind") is None,
    reason="needs OCaml (Debian: apt install ocaml-findlib libzarith-ocaml-dev)",
)
@pytest.mark.skipif(
    not (COQ.parent / "checker.py").exists(), reason="needs proofs_checks/kernel/checker.py"
)
def test_verified_program_agrees_with_the_checker(tmp_path):
    result = run_make("check", tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count(": 0 differences") == 2
