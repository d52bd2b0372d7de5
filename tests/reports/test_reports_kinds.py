"""White-box, sensitivity and utility results in a report: their numbers, their plots,
what to do.
"""

import json

import numpy as np
import pytest

from dpwitness import audit_sensitivity, audit_utility, certify
from dpwitness.auditors import MeanBound, Scaling
from dpwitness.mechanisms import ConvergenceError, Gaussian, Laplace, Records
from dpwitness.reports import write_report


def linear(value, size, rng):
    return 2.0 * value * rng.uniform(0.9, 1.1, size)


@pytest.fixture(scope="module")
def results():
    small = Gaussian(1.0, 1e-5, noise_multiplier=0.8)
    return [
        certify(Laplace(1.0), name="exact"),
        certify(small, small.worst_pair(), name="small noise"),
        audit_sensitivity(np.mean, 0.25, Records(4), evaluations=300, name="the mean"),
        audit_sensitivity(np.mean, 0.2, Records(4), evaluations=300, name="too tight"),
        audit_utility(linear, Scaling(1.0, (1, 4, 16, 64)), name="linear"),
        audit_utility(linear, Scaling(0.5, (1, 4, 16, 64)), name="not a root"),
        audit_utility(lambda size, rng: rng.exponential(size=size), MeanBound(1.1), name="noise"),
    ]


@pytest.fixture(scope="module")
def folder(results, tmp_path_factory):
    place = tmp_path_factory.mktemp("report")
    write_report(results, place / "one", title="t")
    write_report(
        json.loads((place / "one" / "audit.json").read_text())["results"], place / "two", title="t"
    )
    return place


def test_cards_hold_the_numbers(folder):
    text = (folder / "one" / "audit.md").read_text()
    for expected in (
        "VIOLATED in 3 of 7 audits",
        "| epsilon | in [1, 1], both orders of the pair |",
        "no change is needed for this pair",
        "dpwitness replay witness-small-noise.json",
        "| largest ratio to the bound | 1.25, in [1.25, 1.25] (values taken as exact to 1e-9) |",
        "raise it at least by the ratio below",
        "1.25 of the bound",
        "slope of the log error",
        "±",
        "promise less, or repair the mechanism",
        "| enclosure |",
        "error = O(n^0.5)",
    ):
        assert expected in text, expected


def test_an_error_shows_no_number(tmp_path):
    def stuck(dataset):
        raise ConvergenceError("step 7 of 7")

    text = write_report(
        [audit_sensitivity(stuck, 1.0, Records(1), evaluations=50)], tmp_path, title="t"
    ).read_text()
    assert (
        "step 7 of 7" in text and "largest ratio" not in text and not list(tmp_path.glob("*.svg"))
    )


GUESS = "the claim is pure:1 under replace-one, read from parameter 'epsilon'"


def leaky(dataset, size, rng):
    return np.sum(dataset) + rng.laplace(0.0, 0.4, size)


def guessed(dataset, size, rng):
    return leaky(dataset, size, rng)


guessed.guessed = GUESS
