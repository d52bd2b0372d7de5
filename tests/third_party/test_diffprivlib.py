"""diffprivlib in its own interpreter: three targets with known verdicts, and the commands of the
guide.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from dpwitness.suites import run_case, suite

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "library.md"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "trials", "verdict", "bits"),
    [
        ("K2-diffprivlib-laplace", 200_000, "NOT_REFUTED", "VIOLATED"),
        ("K4-diffprivlib-snapping", 100_000, "NOT_REFUTED", None),
        ("K15-diffprivlib-nanmean", 20_000, "VIOLATED", "VIOLATED"),
    ],
)
def test_verdicts(diffprivlib_home, monkeypatch, name, trials, verdict, bits):
    """Confidence 1 - 1e-7 for each level. The leak and the violation certify beyond 3, with room
    for the seed.
    """
    monkeypatch.setenv("DPWITNESS_HOME", str(diffprivlib_home))
    (case,) = [case for case in suite("third-party") if case.name == name]
    outcome = run_case(case, trials=trials, confidence=1 - 1e-7, seed=5)
    case.mechanism.close()
    result = outcome.result
    assert result.verdict.name == verdict, result.headline()
    assert (result.bit_level.verdict.name if result.bit_level else None) == bits
    assert outcome.json["third_party"]["version"] == "0.6.6"
    assert result.epsilon_lower > 3 if verdict == "VIOLATED" else 0.8 < result.epsilon_lower < 1


@pytest.mark.slow
def test_commands_of_the_guide(diffprivlib_home, tmp_path):
    """The commands as printed."""
    blocks = re.findall(
        r"^```sh\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    (block,) = [block for block in blocks if "diffprivlib" in block]
    expected = [0, 1, 1, 1]
    environment = {**os.environ, "DPWITNESS_HOME": str(diffprivlib_home)}
    for line, code in zip(block.splitlines(), expected, strict=True):
        command, *arguments = shlex.split(line, comments=True)
        assert command == "dpwitness"
        ran = subprocess.run(
            [sys.executable, "-m", "dpwitness", *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert ran.returncode == code, ran.stdout + ran.stderr
