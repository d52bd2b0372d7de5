"""Published pages follow from their data, and say from which commit they are and what has changed
since.
"""

import json
import shutil
from pathlib import Path

import pytest

from dpwitness.benchmarks import provenance
from dpwitness.benchmarks.pages import campaign
from dpwitness.benchmarks.pages.campaign import Step, ledger_of, steps, with_foot, without_foot
from dpwitness.benchmarks.pages.reproductions.__main__ import write as write_reproductions
from dpwitness.benchmarks.pages.site import GROUPS, WRITERS
from dpwitness.benchmarks.peers import run as peers
from dpwitness.benchmarks.recall import run as recall
from dpwitness.core.values.validation import InvalidArgument

PUBLISHED = Path(__file__).parents[3] / "reports" / "published"
OTHERS = {
    "peers": lambda folder: peers.main(["--page", str(folder)]),
    "recall": lambda folder: recall.main(["--page", str(folder)]),
    "reproductions": lambda folder: write_reproductions(
        json.loads((folder / "reproductions.json").read_text(encoding="utf-8")), folder
    ),
}


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages") / "published"
    shutil.copytree(PUBLISHED, folder, ignore=shutil.ignore_patterns("*.html"))
    return folder


@pytest.mark.parametrize("name", sorted({*WRITERS, *OTHERS} - {"third-party-exact"}))
def test_a_published_page_is_that_of_its_data_and_of_the_ledger(name, copy, capsys):
    if not (PUBLISHED / f"{name}.json").exists() and name in ("canaries", "power"):
        pytest.skip("its data are not published yet")
    OTHERS.get(name, WRITERS.get(name))(copy)
    written = (copy / f"{name}.md").read_text(encoding="utf-8")
    assert (PUBLISHED / f"{name}.md").read_text(encoding="utf-8") == with_foot(
        written, name, ledger_of(PUBLISHED)
    ), "run `make site`"


def test_every_page_is_measured_by_one_step():
    measured = [page for step in steps() for page in step.pages]
    pages = [page for _, _, names in GROUPS for page in names]
    assert sorted(measured) == sorted(set(pages) - {"findings"})
    assert all(name in provenance.INPUTS for step in steps() for name in step.inputs)


def step(**changed):
    fields = {"inputs": ("learner",), "publish": (), "measure": ("python -c pass",)}
    return Step("demo", ("demo",), **fields | changed)


def test_a_page_says_its_commit_and_what_has_changed_since(monkeypatch, tmp_path):
    monkeypatch.setattr(campaign, "steps", lambda: [step()])
    (tmp_path / "demo.md").write_text("# Demo\n\nText.\n")
    campaign.run(tmp_path, tmp_path / "out", [step()])
    page = (tmp_path / "demo.md").read_text()
    assert f"commit `{provenance.commit()}`" in page and "Older" not in page
    assert without_foot(page) == "# Demo\n\nText.\n"
    assert step().older(ledger_of(tmp_path)) == []
    monkeypatch.setattr(campaign, "digests", lambda names: dict.fromkeys(names, "other"))
    campaign.write_feet(tmp_path)
    assert (
        "Older than the code, which has changed since: learner."
        in (tmp_path / "demo.md").read_text()
    )


def test_an_interrupted_campaign_resumes_and_a_failed_command_is_named(tmp_path):
    file = tmp_path / "count.txt"
    count = f"""python -c "open('{file}', 'a').write('x')" """.strip()
    fails = "python -c 'raise SystemExit(2)'"
    for _ in range(2):
        with pytest.raises(InvalidArgument, match="ended with code 2"):
            campaign.run(tmp_path, tmp_path / "out", [step(measure=(count, fails))])
    assert file.read_text() == "x" and not ledger_of(tmp_path)
    campaign.run(tmp_path, tmp_path / "out", [step(measure=(count,))])
    assert file.read_text() == "x" and ledger_of(tmp_path)["demo"]["minutes"] >= 0


def test_layout_and_texts_change_no_digest(monkeypatch, tmp_path):
    monkeypatch.setattr(provenance, "ROOT", tmp_path)
    monkeypatch.setattr(provenance, "INPUTS", {"learner": ("a",)})
    (tmp_path / "a").mkdir()
    found = []
    for text in ("def f():\n    return 1\n", 'def f():\n    """Doc."""\n    return (1)\n', "f = 2"):
        (tmp_path / "a" / "x.py").write_text(text)
        provenance.digest.cache_clear()
        found.append(provenance.digest("learner"))
    provenance.digest.cache_clear()
    assert found[0] == found[1] != found[2]
