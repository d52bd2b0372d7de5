"""The programs of the published findings print what the page says, where their library is installed
in that release.
"""

import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "reports" / "published" / "findings.md"
PROGRAM = re.compile(
    r"^## (\S+) (\S+): ([^\n]*)\n(?:(?!^## ).)*?^```python\n(.*?)^```\n\n```\n(.*?)^```",
    re.M | re.S,
)
FOUND = PROGRAM.findall(PAGE.read_text(encoding="utf-8"))


@pytest.mark.slow_cases(
    "repeated randomized response is counted once",
    "integer noise multipliers drop composed Gaussian events",
)
@pytest.mark.parametrize(
    ("library", "release", "title", "program", "printed"),
    FOUND,
    ids=[title for _, _, title, *_ in FOUND],
)
def test_a_finding_is_reproduced(library, release, title, program, printed):
    try:
        installed = version(library)
    except PackageNotFoundError:
        installed = "none"
    if installed != release:
        pytest.skip(f"needs {library} {release}, installed: {installed}")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == printed


def test_each_finding_has_a_program():
    text = PAGE.read_text(encoding="utf-8")
    assert len(FOUND) == len(re.findall(r"^## ", text, re.M)) == text.count("```python")
