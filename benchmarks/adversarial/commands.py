"""Attacks on the front door: marked test items of random kinds, and numbers in spellings that only
look like numbers.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from numpy.random import Generator

from dpwitness.benchmarks.adversarial.attack import Attack, refusal
from dpwitness.commands.options import integer, real
from dpwitness.core.claims import parse_claim

_HEAD = """
import functools, unittest
import pytest
from dpwitness import mechanisms as m

class Item(pytest.Item):
    def runtest(self):
        return broken()

def broken():
    return m.Laplace({epsilon!r}, noise_multiplier=0.25)
"""

# Kinds of items, each with a body that would return or yield a broken mechanism; {mark} is the
# marker, or nothing if the class or the module carries it.
_KINDS = {
    "method of a TestCase": (
        "class Test{n}(unittest.TestCase):\n    {mark}\n    def test_{n}(self):\n        return "
        "broken()\n"
    ),
    "generator of a TestCase": (
        "class Test{n}(unittest.TestCase):\n    {mark}\n    def test_{n}(self):\n        yield "
        "broken()\n"
    ),
    "async TestCase": "class Test{n}(unittest.IsolatedAsyncioTestCase):\n    {mark}\n    async def "
    "test_{n}(self):\n"
    "        return broken()\n",
    "async function": "{mark}\nasync def test_{n}():\n    return broken()\n",
    "async generator": "{mark}\nasync def test_{n}():\n    yield broken()\n",
    "wrapper that drops the result": (
        "def drop(f):\n    @functools.wraps(f)\n    def run():\n        f()\n    return run\n"
        "\n"
        "{mark}\n@drop\n"
        "def test_{n}():\n    return broken()\n"
    ),
    "function": "{mark}\ndef test_{n}():\n    return broken()\n",
    "method": "class Test{n}:\n    {mark}\n    def test_{n}(self):\n        return broken()\n",
    "generator": "{mark}\ndef test_{n}():\n    yield broken()\n",
    "parametrized function": (
        "{mark}\n@pytest.mark.parametrize('x', [1])\ndef test_{n}(x):\n    return [broken()]\n"
    ),
    "second marker": "{mark}\n@pytest.mark.dp_audit(claim='pure:9')\ndef test_{n}():\n    return "
    "broken()\n",
    "empty list": "{mark}\ndef test_{n}():\n    return []\n",
    "nothing": "{mark}\ndef test_{n}():\n    broken()\n",
}
_CONFTEST = """
import pytest

class Item(pytest.Item):
    def runtest(self):
        pass

class Items(pytest.File):
    def collect(self):
        item = Item.from_parent(self, name="test_other")
        item.add_marker(pytest.mark.dp_audit)
        yield item

def pytest_collect_file(file_path, parent):
    return Items.from_parent(parent, path=file_path) if file_path.suffix == ".items" else None
"""


def _marked_items(rng: Generator) -> str:
    """Run a file of three marked items of random kinds, some of them marked by their module; every
    one must fail.
    """
    epsilon = float(rng.uniform(0.3, 2.0))
    kinds = [str(kind) for kind in rng.choice(list(_KINDS), size=3, replace=False)]
    mark = f"pytest.mark.dp_audit(claim='pure:{epsilon!r}', trials={int(rng.integers(4000, 9000))})"
    by_module = rng.random() < 0.3 and "second marker" not in kinds
    text = _HEAD.format(epsilon=epsilon) + (f"pytestmark = {mark}\n" if by_module else "")
    for n, kind in enumerate(kinds):
        text += _KINDS[kind].format(n=n, mark="" if by_module else f"@{mark}") + "\n"
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "test_items.py").write_text(text, encoding="utf-8")
        Path(folder, "conftest.py").write_text(_CONFTEST, encoding="utf-8")
        Path(folder, "more.items").write_text("", encoding="utf-8")
        options = ["-q", "-p", "no:cacheprovider", "-p", "no:randomly"]
        command = [sys.executable, "-m", "pytest", *options, folder]
        ran = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=300, check=False
        )
    found = re.search(r"(\d+) failed", ran.stdout)
    if found is None or int(found[1]) != 4 or re.search(r"\d+ (passed|error)", ran.stdout):
        end = (ran.stdout or ran.stderr).splitlines()[-1:]
        return f"of 4 marked items ({', '.join(kinds)}, and another plugin's): {end}"
    return ""


# zero in other scripts and widths
_DIGITS = ("\uff10", "\u0660", "\u0966", "\u06f0", "\U0001d7ce", "\u0e50")


def _spelled(rng: Generator) -> str:
    """Return a random number in a spelling that `float` reads, although it is not a number in ASCII
    digits.
    """
    text = (
        f"{float(rng.uniform(1.0, 9.0)):.3g}"
        if rng.random() < 0.5
        else str(int(rng.integers(1000, 9999)))
    )
    kind = int(rng.integers(5))
    if kind == 0:
        zero, place = (
            ord(_DIGITS[int(rng.integers(len(_DIGITS)))]),
            int(rng.choice([i for i, c in enumerate(text) if c.isdigit()])),
        )
        return text[:place] + chr(zero + int(text[place])) + text[place + 1 :]
    if kind == 1:
        return f"{text}0_0{int(rng.integers(10))}"
    if kind == 2:
        return f"+{text}"
    return f" {text}" if kind == 3 else f"{text}\u2003"


def _odd_spellings(rng: Generator) -> str:
    """Read a random odd spelling as a claim, as an option, and as tagged JSON; all of them must
    refuse.
    """
    text, form = (
        _spelled(rng),
        [
            "pure:{}",
            "approx:{},1e-5",
            "zcdp:{}",
            "rdp:2,{}",
            "gdp:{}",
            "metric:{}",
            "group:2,pure:{}",
        ],
    )
    claim = str(rng.choice(form)).format(text)
    fault = refusal(lambda: parse_claim(claim), json.dumps(claim))
    for parser in (integer("trials", 1, 10**12), real("seconds", 0.0, 1e12)):
        try:
            parser(text)
        except Exception as error:
            fault = fault or (
                ""
                if type(error).__name__ == "ArgumentTypeError"
                else f"{json.dumps(text)} raises {type(error).__name__}"
            )
        else:
            fault = fault or f"the option {json.dumps(text)} was read as a number"
    return fault


ATTACKS = (
    Attack("a marked item of a random kind passes without an audit", _marked_items, runs=8),
    Attack("a number in other digits or spellings is read", _odd_spellings, runs=2000),
)
