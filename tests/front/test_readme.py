"""Tests of the README: its code blocks run and print what is shown, and its numbers agree with the
published pages.
"""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

README = Path(__file__).parents[2] / "README.md"
PUBLISHED = README.parent / "reports" / "published"
# options that shorten a command whose output is not shown
SHORTER = {"check": ["--trials", "4000"], "claims": ["--quick"]}
EXIT_CODES = {
    "audit": 1,
    "replay": 1,
    "targets": 0,
    "check": 0,
    "claims": 1,
    "canaries": 0,
    "report": 0,
}


@pytest.fixture(scope="module")
def text():
    return README.read_text(encoding="utf-8")


def steps(block):
    """Yield the commands of a console block, each with the output shown under it."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, *printed = part.splitlines()
        yield shlex.split(command), [line for line in printed if line != "..."]


def compare(printed, lines):
    """Assert that `lines` begin with the `printed` lines; numbers may differ by 0.02."""
    number = r"\d+\.\d+"
    for shown, found in zip(printed, lines, strict=False):
        assert re.sub(number, "N", shown) == re.sub(number, "N", found)
        numbers = [[float(value) for value in re.findall(number, line)] for line in (shown, found)]
        assert numbers[0] == pytest.approx(numbers[1], abs=0.02)


def test_every_block_as_printed(shell, text):
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert {kind for kind, _ in blocks} == {"python", "console"}
    for kind, content in blocks:
        if kind == "python":
            (shell.folder / re.match(r"# (\w+\.py)", content)[1]).write_text(content)
    scores = np.random.default_rng(1).normal(size=(2, 1_000))
    np.savez(shell.folder / "scores.npz", scores_in=scores[0], scores_out=scores[1])
    used = set()
    for kind, content in blocks:
        for command, printed in steps(content) if kind == "console" else ():
            if command[0] == "pytest":
                ran = shell.pytest(*command[1:], "-n", "1")
                assert "1 passed" in ran.stdout, ran.stdout
                assert (
                    len(json.loads((shell.folder / "out" / "audit.json").read_text())["results"])
                    == 1
                )
                continue
            ran = shell.dpwitness(*command[1:], *([] if printed else SHORTER.get(command[1], [])))
            assert ran.returncode == EXIT_CODES[command[1]], ran.stdout + ran.stderr
            compare(printed, ran.stdout.splitlines())
            used.add(command[1])
    assert used == set(EXIT_CODES)


def test_it_stays_short(text):
    assert len(text.splitlines()) <= 120


def test_links_lead_somewhere(text):
    for target in re.findall(r"\]\(([^)#]+)(?:#[\w-]+)?\)", text):
        assert (README.parent / target).is_file(), target


def test_figures_are_those_of_the_published_pages(text):
    section = text.partition("## How it compares\n")[2].partition("\n## ")[0]
    points = [point for point in section.split("\n- ") if "](" in point]
    assert len(points) == 3
    for point in points:
        pages = [
            (PUBLISHED / name).read_text(encoding="utf-8")
            for name in re.findall(r"\]\(reports/published/([\w-]+\.md)\)", point)
        ]
        for number in re.findall(
            r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?:e-\d+)?", re.sub(r"\(reports/\S+", "", point)
        ):
            assert any(
                re.search(rf"(?<![\d.]){re.escape(number)}(?![\d]|\.\d)", page) for page in pages
            ), (number, point)
