"""Tests of ``--white-box`` and ``--search``: exact privacy loss and search for pairs."""

import json

import pytest

from dpwitness.cli import main

SINGULAR = json.dumps(
    {"epsilon": 1.0, "regularization": 0.1, "noise": "laplace_radius_std", "dimension": 2}
)
PAIR = ["--d0", "[0]", "--d1", "[1]"]
LEAKY = ["mine.py:leaky", "--claim", "pure:1"]
LAPLACE = ["dpwitness.mechanisms:Laplace", "--kwargs", '{"epsilon": 1.0}']


def told(capsys, *arguments):
    code = main(["audit", *arguments])
    return code, capsys.readouterr().out


@pytest.mark.slow
def test_the_catalogue_is_looked_through(capsys):
    """The exact epsilon of noisy max with its value is 2.5 at epsilon = 1, on a pair of the
    catalogue.
    """
    code, out = told(
        capsys,
        "dpwitness.mechanisms:NoisyMax",
        "--kwargs",
        '{"epsilon": 1.0, "release": "value"}',
        "--white-box",
        "--json",
    )
    assert code == 1
    assert json.loads(out)["epsilon_lower"] == pytest.approx(2.5, rel=1e-6)


@pytest.mark.slow
def test_found_by_search_enclosed_audited_and_replayed(shell):
    """CM-05: the privacy loss is infinite at the minimizer, and outputs near it certify more than 3
    on fresh runs.
    """
    options = [
        "--search",
        "--white-box",
        "--search-seconds",
        "5",
        "--trials",
        "2e6",
        "--report",
        "out",
    ]
    found = shell.dpwitness(
        "audit", "dpwitness.mechanisms:LogisticOutputPerturbation", "--kwargs", SINGULAR, *options
    )
    assert (
        found.returncode == 1
        and found.stderr.count("\n") == 1
        and found.stderr.endswith(" expected\n")
    )
    assert found.stdout.startswith("VIOLATED: no finite epsilon holds on this pair")
    results = json.loads((shell.folder / "out" / "audit.json").read_text())["results"]
    assert [r["kind"] for r in results] == ["white box", "black box"]
    assert results[0]["epsilon_lower"] == "inf" and results[1]["epsilon_lower"] > 3
    assert "dpwitness replay out/witness-logisticoutputperturbation-2.json" in found.stdout
    for name in ("", "-2"):
        again = shell.dpwitness(
            "replay", f"out/witness-logisticoutputperturbation{name}.json", "--seed", "8"
        )
        assert again.returncode == 1 and "the violation is confirmed" in again.stdout


@pytest.mark.slow
def test_a_black_box_is_searched(shell):
    """The search finds a pair with a violation if the noise is small only where the sum
    is large.
    """
    (shell.folder / "shy.py").write_text(
        "import numpy as np\nfrom dpwitness.mechanisms import Records\n\n\n"
        "def total(dataset, size, rng):\n  x = float(np.sum(dataset))\n  return x + "
        "rng.laplace(0.0, 1.0 if x < 2.5 else 0.4, size)\n\n\n"
        "total.domain = Records(3)\n"
    )
    found = shell.dpwitness(
        "audit",
        "shy.py:total",
        "--claim",
        "pure:1",
        "--search",
        "--search-seconds",
        "5",
        "--json",
        "--trials",
        "2e5",
    )
    data = json.loads(found.stdout)
    assert found.returncode == 1 and data["kind"] == "black box" and data["epsilon_lower"] > 1.3
    assert data["notes"][-1].startswith("pair found by a search of the domain: epsilon = ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (*LEAKY, *PAIR, "--white-box"),
            "--white-box needs a mechanism with log_density, but leaky has none",
        ),
        ((*LEAKY, "--search"), "--search needs a mechanism with a domain, but leaky has none"),
        ((*LEAKY, *PAIR, "--search"), "--search chooses the pair: leave out --d0 and --d1"),
        (
            (*LAPLACE, "--search", "--search-seconds", "0"),
            "search seconds must lie in (0, 1e+06], got 0.0",
        ),
        (
            (*LAPLACE, *PAIR, "--white-box", "--trials", "10"),
            "trials must be a whole number, between 1000 and 1000000000000, got 10",
        ),
    ],
)
def test_user_errors_are_refused(shell, monkeypatch, refused, arguments, message):
    monkeypatch.chdir(shell.folder)
    assert message in refused("audit", *arguments)
