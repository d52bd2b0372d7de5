"""The benchmark of attacks: its exact test, its seeds, its page, and that it finds defects which
are put in on purpose.
"""

import pytest
from scipy.stats import binom

from dpwitness.benchmarks.adversarial import stopping
from dpwitness.benchmarks.adversarial.attack import Outcome, Rate, attacks


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


def test_names_are_unique_and_every_rate_of_a_claim_has_400_runs():
    found = attacks()
    assert len(found) >= 68 and all(
        attack.runs >= 400
        for name, attack in found.items()
        if name.startswith(("false alarms", "optional"))
    )


@pytest.mark.slow
def test_optional_stopping_is_found_where_extensions_are_pooled(monkeypatch):
    """Exact: at alpha 1e-9 the best length of one extension errs with 1.6 alpha where 1.5 alpha is
    stated, if counts are pooled.
    """
    attack = attacks()["optional stopping of one extension, exact, alpha down to 1e-9"]
    assert not any(attack.attempt(1, number).fault for number in range(4))
    monkeypatch.setattr(stopping, "extended", lambda parts: parts)
    assert "at alpha 1e-09" in attack.attempt(1, 2).fault
