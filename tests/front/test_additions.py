"""A domain, a report format and a mechanism are added with at most two files each: a file, and a
line of the stub for a public name, or of the list of formats.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dpwitness

ROOT = Path(dpwitness.__file__).resolve().parent.parent
DOMAIN = '''
from dataclasses import dataclass

from dpwitness.core.domains.base import Domain, Draws, SearchSpace

@dataclass(frozen=True, slots=True)
class Coin(Domain):
    """One coin, whose neighbor shows the other side."""

    sides: int = 2
    relation: str = "replace-one"

    def contains(self, dataset):
        return list(dataset) in [[float(side)] for side in range(self.sides)]

    def catalogue(self):
        yield self.pair([0.0], [self.sides - 1.0], "both sides of a coin")

    def draws(self, rng):
        return _Sampler(self, rng)

    def shape(self, rng, turn):
        return SearchSpace(0, lambda _: None)

class _Sampler(Draws):
    def random_pair(self, turn, corners):
        return None
'''
FORMAT = """
def text(document):
    return "".join(f"{result['name']}: {result['verdict']}\\n" for result in document["results"])
"""
MECHANISM = '''
import math
from dataclasses import dataclass

from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.domains.records import Records
from dpwitness.core.claims import PureDP
from dpwitness.core.protocols.mechanism import Truth

@dataclass(frozen=True, slots=True)
class ToldTwice:
    """Randomized response on a bit, answered twice under the claim of one answer."""

    epsilon: float

    @property
    def claim(self):
        return PureDP(self.epsilon)

    @property
    def domain(self):
        return Records(1, 0.0, 1.0, integer=True)

    @property
    def truth(self):
        return Truth(2 * self.epsilon, "composition")

    def worst_pair(self):
        return Pair([0.0], [1.0], "replace-one", "the bit")

    def sample(self, dataset, size, rng):
        lies = rng.random((size, 2)) < 1 / (1 + math.exp(self.epsilon))
        return abs(lies - float(dataset[0]))

def specimens():
    return {"told-twice": ToldTwice(1.0)}
'''


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return a function that runs the command line on a copy of the packages with the three
    additions.
    """
    tree = tmp_path_factory.mktemp("tree")
    for package in ("core", "mechanisms", "auditors", "proofs_checks", "reports", "dpwitness"):
        shutil.copytree(ROOT / package, tree / package, ignore=shutil.ignore_patterns("published"))
    (tree / "core" / "domains" / "coin.py").write_text(DOMAIN)
    (tree / "reports" / "formats" / "txt_format.py").write_text(FORMAT)
    with (tree / "reports" / "formats" / "__init__.py").open("a") as formats:
        formats.write('FORMATS["txt"] = Format(".txt", "txt_format:text")\n')
    (tree / "mechanisms" / "textbook" / "twice.py").write_text(MECHANISM)
    with (tree / "mechanisms" / "names.pyi").open("a") as stub:
        stub.write("from .textbook.twice import ToldTwice as ToldTwice\n")

    def run(*arguments):
        environment = os.environ | {"PYTHONPATH": str(tree)}
        command = [sys.executable, "-m", "dpwitness", *arguments]
        found = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, text=True, timeout=600
        )
        assert found.returncode in (0, 1), found.stderr
        return found.stdout

    run.folder = tree
    return run


@pytest.mark.slow
def test_added_parts_work_from_the_command_line(run):
    """False-failure probability below 1e-9: the true epsilon is twice the claim."""
    audit = [
        "audit",
        "dpwitness.mechanisms:ToldTwice",
        "--kwargs",
        '{"epsilon": 1}',
        "--trials",
        "20000",
    ]
    assert run(*audit, "--domain", '{"kind": "Coin"}', "--report", "out").startswith("VIOLATED")
    report = json.loads((run.folder / "out" / "audit.json").read_text())
    (result,) = report["results"]
    assert (
        result["pair"]["why"] == "both sides of a coin"
        and result["target"]["target"] == "dpwitness.mechanisms:ToldTwice"
    )
    assert "txt" in run("report", "--help")
    assert run("report", "out/audit.json", "--format", "txt").splitlines() == [
        str(Path("out", "audit.txt"))
    ]
    assert (run.folder / "out" / "audit.txt").read_text() == "ToldTwice: VIOLATED\n"
    assert "VIOLATED" in run("replay", f"out/{result['witness_file']}")
    assert run("audit", "zoo:told-twice", "--trials", "20000").startswith("VIOLATED")
