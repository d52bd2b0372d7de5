"""A thousand witnesses gone wrong: each is refused in one line or replayed; nothing else is raised,
nothing foreign is loaded.
"""

import json
import re
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from dpwitness import InvalidArgument, Pair, audit, audit_sensitivity, certify, replay
from dpwitness.auditors.witnesses.witness_reader import load_json
from dpwitness.benchmarks.damaged_witnesses import mutants
from dpwitness.cli import main
from dpwitness.mechanisms import Laplace, Records, zoo

PAIR = Pair(np.array([0.0]), np.array([1.0]))
PUBLISHED = Path(__file__).parents[3] / "reports" / "published"


def bases():
    """How many mutants, and of which witness."""
    yield 400, audit(zoo()["laplace-0.9"], pair=PAIR, trials=400_000, seed=5).witness
    yield 350, audit_sensitivity(np.mean, 0.2, Records(4), evaluations=200).witness
    yield 150, certify(Laplace(1.0, noise_multiplier=0.5), PAIR).witness
    yield 100, json.loads((PUBLISHED / "papers" / "witness-cm-05-event.json").read_text())


@pytest.mark.slow
def test_mutants_of_audits_and_measures(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "w.json"
    ended: Counter[str] = Counter()
    told = []
    before = set(sys.modules)
    for count, witness in bases():
        for mutant in mutants(witness, count, seed=3):
            file.write_bytes(mutant.content)
            try:
                result = replay(
                    file,
                    allow=["numpy:mean"],
                    **({} if witness.get("kind") else {"trials": 1000}),
                    seed=8,
                )
                ended[result.verdict.value] += 1
            except InvalidArgument as error:
                told.append(str(error))
                ended["refused"] += 1
    assert not [text for text in told if "\n" in text or len(text) > 1000]
    assert sum(ended.values()) == 1000 and 850 < ended["refused"] < 990, ended
    loaded = {name.partition(".")[0] for name in set(sys.modules) - before}
    assert not loaded & {"no_such_module_anywhere", "elsewhere", "this", "antigravity"}


@pytest.mark.parametrize("path", sorted(PUBLISHED.glob("*/witness-*.json")), ids=lambda p: p.stem)
def test_published_witnesses_are_read(path):
    load_json(path)
    # a place of one machine: they are replayed on others
    assert re.findall(r'"/\w[^"]*"', path.read_text(encoding="utf-8")) == []


OLD = sorted((Path(__file__).parent / "witnesses").glob("*.json"))


@pytest.mark.slow_cases("threshold", "utility", "white-box", "white-box-rows")
@pytest.mark.parametrize("path", OLD, ids=lambda path: path.stem)
def test_an_old_witness_replays(path, capsys):
    allowed = ["--allow", "numpy:mean"] if path.stem == "sensitivity" else []
    assert main(["replay", str(path), "--seed", "8", *allowed]) == 1
    said = capsys.readouterr().out
    assert "VIOLATED" in said or "FAILS" in said
