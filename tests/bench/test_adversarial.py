"""The benchmark of attacks: its exact test, its seeds, its page, and that it finds defects which
are put in on purpose.
"""

import pytest
from scipy.stats import binom

from dpwitness.benchmarks import bench
from dpwitness.benchmarks.adversarial import stopping
from dpwitness.benchmarks.adversarial.attack import Attack, Outcome, Rate
from dpwitness.benchmarks.adversarial.run import attacks, measure
from dpwitness.benchmarks.pages.trust_page import page
from dpwitness.benchmarks.table import Table
from dpwitness.cli import main


def _rate(failures, runs, stated):
    rate = Rate()
    for number in range(runs):
        rate.add(number, Outcome("wrong" if number < failures else "", stated))
    return rate


@pytest.mark.parametrize(
    ("failures", "runs", "stated"),
    [(0, 400, 0.05), (20, 400, 0.05), (41, 400, 0.05), (130, 400, 0.2)],
)
def test_the_row_is_met_where_the_exact_p_value_is_above_the_threshold(failures, runs, stated):
    rate = _rate(failures, runs, stated)
    exact = sum(binom.pmf(k, runs, stated) for k in range(failures, runs + 1))
    assert rate.p_value == pytest.approx(exact, rel=1e-9)
    for threshold in (1e-5, 1e-3, 0.3):
        assert rate.row("attack", threshold).met == (rate.p_value > threshold)


def test_what_must_never_happen_fails_the_row_at_once():
    assert (
        _rate(0, 400, 0.0).row("attack", 1e-5).met
        and not _rate(1, 400, 0.0).row("attack", 1e-5).met
    )


def test_an_attack_that_raises_has_succeeded_and_is_repeated_by_its_seed():
    def attack(rng):
        raise TypeError(str(rng.random()))

    broken = Attack("broken", attack)
    assert broken.attempt(1, 2) == broken.attempt(1, 2) != broken.attempt(1, 3)
    assert broken.attempt(1, 2).fault.startswith("raises TypeError: 0.")


def test_the_same_seed_makes_the_same_attacks(monkeypatch):
    only = {"share": 0.0003, "only": "optional stopping of extensions, alpha", "workers": 1}
    assert measure(3, **only).rows == measure(3, **only).rows
    # fresh by default: equal with probability 2^-48
    assert measure(**only).notes[0] != measure(**only).notes[0]


def test_names_are_unique_and_every_rate_of_a_claim_has_400_runs():
    found = attacks()
    assert len(found) >= 69 and all(
        attack.runs >= 400
        for name, attack in found.items()
        if name.startswith(("false alarms", "optional"))
    )


def test_optional_stopping_is_found_where_extensions_are_pooled(monkeypatch):
    """Exact: at alpha 1e-9 the best length of one extension errs with 1.6 alpha where 1.5 alpha is
    stated, if counts are pooled.
    """
    attack = attacks()["optional stopping of one extension, exact, alpha down to 1e-9"]
    assert not any(attack.attempt(1, number).fault for number in range(4))
    monkeypatch.setattr(stopping, "extended", lambda parts: parts)
    assert "at alpha 1e-09" in attack.attempt(1, 2).fault


def test_the_page_shows_every_attack_with_its_p_value():
    good, bad = _rate(18, 400, 0.05), _rate(3, 400, 0.0)
    rows = (good.row("alarms", 1e-5), bad.row("forged", 1e-5))
    table = Table(
        "adversarial",
        rows,
        ("seed 5",),
        (good.details("alarms"), bad.details("forged")),
        binding=True,
    )
    found = page([table])
    assert (
        f"| alarms | at most 0.05 | 18 of 400 | 0.027 to 0.070 | {good.p_value:.4g}"[:60] in found
    )
    assert (
        "| forged | never | 3 of 400 |" in found
        and "**succeeds**" in found
        and "- forged: run 0: wrong" in found
    )


def test_the_command_takes_a_seed_for_attacks_only(capsys, monkeypatch):
    def few(seed, parts=()):
        return Table("adversarial", (_rate(seed, 9, 0.0).row("x", 0.1),), binding=True)

    monkeypatch.setattr("dpwitness.benchmarks.adversarial.run.measure", few)
    assert main(["bench", "adversarial", "--seed", "0"]) == 0
    assert main(["bench", "adversarial", "--seed", "4"]) == 1
    assert "MISSED" in capsys.readouterr().out
    assert main(["bench", "power", "--seed", "4"]) == 2
    assert "--seed is only for bench adversarial" in capsys.readouterr().err
    with pytest.raises(ValueError, match="whose cases are fixed"):
        bench("power", 4)
