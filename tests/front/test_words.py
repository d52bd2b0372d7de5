"""Tests of printed text: results fit on one screen, infinities are words, and skipped checks do not
count as passed.
"""

import math

import pytest

from dpwitness import Target, parametrize_with_checks
from dpwitness.core.values.wording import beyond
from dpwitness.mechanisms.wrappers.programs.worker_pool import TargetError


def test_infinity_is_said_in_words():
    assert (
        beyond("epsilon", math.inf) == "no finite epsilon holds"
        and beyond("mu", 1.25) == "mu > 1.25"
    )


@pytest.mark.parametrize(
    ("target", "told"),
    [
        (lambda folder: Target(str(folder / "nowhere.py"), "f"), "existing file"),
        (lambda folder: Target(str(folder / "there.py"), "mistyped"), "mistyped"),
        (lambda folder: Target(str(folder / "broken.py"), "f"), "SyntaxError"),
        (
            lambda folder: Target(str(folder / "there.py"), "f", python="no-such-python"),
            "no-such-python",
        ),
    ],
)
def test_a_target_that_cannot_be_used_fails_its_checks(tmp_path, target, told):
    (tmp_path / "there.py").write_text(
        "def f(dataset, size, rng):\n    return rng.random(size)\n\n\nf.claim = 'pure:1'\n"
    )
    (tmp_path / "broken.py").write_text("def f(:\n")
    mechanism = target(tmp_path)
    items = parametrize_with_checks([mechanism]).args[1]
    assert len(items) > 5 and not any(mark.name == "skip" for item in items for mark in item.marks)
    with pytest.raises(TargetError, match=told):
        items[0].values[1](mechanism)


def test_a_library_that_is_not_installed_skips(tmp_path):
    (tmp_path / "needs.py").write_text(
        "import a_library_that_nobody_has\n\n\ndef f(dataset, size, rng):\n    return "
        "rng.random(size)\n"
    )
    items = parametrize_with_checks([Target(str(tmp_path / "needs.py"), "f")]).args[1]
    assert all([mark.name for mark in item.marks] == ["skip"] for item in items)
