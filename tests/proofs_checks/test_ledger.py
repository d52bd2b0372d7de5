"""The whole ledger: every claim has an entry and comes to the published verdict, differences from
the prior analysis are explained.
"""

import json
from pathlib import Path

import pytest

from dpwitness import suites
from dpwitness.cli import main
from dpwitness.proofs_checks.engine import ClaimVerdict, check, declarations

HERE = Path(__file__).parent
PUBLISHED = HERE.parents[1] / "reports" / "published"
PRIOR = {
    id: entry
    for file in sorted((HERE / "prior").glob("*.json"))
    for id, entry in json.loads(file.read_text(encoding="utf-8")).items()
}
CLAIMS = {
    f"{paper}-{k:02d}"
    for paper, last in (("CM", 11), ("JK", 18), ("MN", 7), ("JT", 19))
    for k in range(1, last + 1)
}


@pytest.fixture(scope="module")
def published():
    return json.loads((PUBLISHED / "papers.json").read_text(encoding="utf-8"))["claims"]


def test_every_claim_has_an_entry():
    known = declarations()
    assert len(CLAIMS) == 55 and not CLAIMS - set(known)
    for id, it in known.items():
        assert it.source and it.statement and it.formula and it.proof, id
        assert it.repairs is None or it.repairs in known, id
        assert set(it.depends) <= set(known), id


@pytest.mark.slow_cases(
    "CM-05-event",
    "CM-06",
    "CM-06-W3",
    "CM-06-line",
    "CM-06-line-std",
    "CM-06-search",
    "CM-07-W5",
    "CM-08-consistency",
    "CM-11",
    "JK-01",
    "JK-06-repair",
    "JK-07",
    "JK-07-constant",
    "JK-10",
    "JK-10-one",
    "JK-15",
    "JK-15-weights",
    "JT-02-shape",
    "JT-06-huber",
    "JT-07-huber",
    "JT-12",
    "JT-14",
    "JT-16",
    "JT-16-limit",
    "JT-17",
    "MN-01",
    "MN-03-W12",
    "MN-03-bulk",
    "MN-04",
    "ZOO-NOISY-MAX-value",
    "ZOO-SVT-less-noise",
    "ZOO-SVT-uncut",
)
@pytest.mark.parametrize("id", sorted(declarations()))
def test_verdict(id, published):
    """Computed again, with less effort: the verdict published, and the prior one or a reason for
    the difference; a failure replays.
    """
    found = check(id, quick=True)
    word, before = found.claim_verdict.value, {f["id"]: f["verdict"] for f in published}
    assert word == before[id]
    if found.evidence.signs is not None and found.declaration.boxed:
        numbers = [found.to_json(), next(f for f in published if f["id"] == id)]
        shares, reached = (
            [it["shares"] for it in numbers],
            [[float(end) for end in it["reached"]] for it in numbers],
        )
        assert shares[0] == pytest.approx(shares[1], abs=0.02), (
            "regenerate the page: a proved number has changed"
        )
        assert reached[0] == pytest.approx(reached[1], rel=1e-6, nan_ok=True)
    assert word in PRIOR[id]["prior"] or PRIOR[id]["difference"], (
        f"{id} is {word}, the prior analysis says {PRIOR[id]['prior']}"
    )
    if found.claim_verdict is ClaimVerdict.FAILS:
        witness = found.witness
        assert witness is not None
        if witness.get("kind") == "claim":
            settings = {
                name: tuple(v) if isinstance(v, list) else v
                for name, v in witness["settings"].items()
            }
            assert check(id, quick=True, seed=1, **settings).claim_verdict is ClaimVerdict.FAILS


WITNESSES = sorted((PUBLISHED / "papers").glob("witness-*.json"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "file",
    [f for f in WITNESSES if json.loads(f.read_text()).get("kind") != "claim"],
    ids=lambda f: f.stem,
)
def test_published_witnesses_of_audits_replay(file):
    assert main(["replay", str(file), "--seed", "8"]) == 1


def test_the_published_claims_are_the_declared_ones(published):
    assert [f["id"] for f in published] == list(declarations())
    for found, declared in zip(published, declarations().values(), strict=True):
        assert {key: found[key] for key in declared.to_json()} == declared.to_json(), (
            "regenerate the page: the ledger has changed"
        )


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path):
    monkeypatch.setenv("DPWITNESS_HOME", str(tmp_path / "home"))


def test_an_interrupted_run_keeps_what_was_checked(monkeypatch, capsys, tmp_path):
    real = suites._check_claim

    def checked(id, **options):
        if id != "CM-01":
            raise KeyboardInterrupt
        return real(id, **options)

    monkeypatch.setattr(suites, "_check_claim", checked)
    assert main(["claims", "check", "all", "--report", str(tmp_path / "out")]) == 3
    said = capsys.readouterr().out
    assert (
        "1 claims: 1 fails" in said
        and f"interrupted: {len(declarations()) - 1} claims were not checked" in said
    )
    assert [
        f["id"]
        for f in json.loads((tmp_path / "out" / "papers.json").read_text(encoding="utf-8"))[
            "claims"
        ]
    ] == ["CM-01"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["check", "CM-6"], "no claim 'CM-6'; did you mean 'CM-06'?"),
        (["check", "CM-06", "--set", "epsilon=0"], r"epsilon must lie in [0.01, 10], got 0"),
        (
            ["check", "CM-06", "--set", "epsilon"],
            "--set must be NAME=VALUE or NAME=LOW:HIGH, got 'epsilon'",
        ),
        (["check", "all", "--set", "epsilon=1"], "--set needs the id of one claim, got all"),
        (["check", "CM-06", "--report", "x"], "--report is only for `claims check all`"),
        (["check", "CM-06", "--seconds", "0"], "seconds must lie in (0, 1e+06], got 0.0"),
    ],
)
def test_bad_input_is_refused(arguments, message, refused):
    assert message in refused("claims", *arguments)
