"""Results and the progress bar in a notebook, in a real IPython shell whose displays are caught."""

import base64
import io
import json
import re
import sys

import numpy as np
import pytest
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell

import dpwitness as dpw
from dpwitness.auditors.witnesses.result import Result
from dpwitness.console import Bar, NotebookBar, Progress, progress_bar
from dpwitness.reports.formats.html_format import notebook_html, notebook_markdown

PAIR = dpw.Pair(np.array([0.0, 3.0]), np.array([1.0, 3.0]))


def leaky(dataset, size, rng):
    return np.sum(dataset) + rng.laplace(0.0, 0.5, size)


@pytest.fixture(scope="module")
def violated():
    return dpw.audit(leaky, claim="pure:1", pair=PAIR, trials=20_000, seed=1)


@pytest.fixture
def shell(monkeypatch):
    """An interactive shell that shows HTML, as a kernel's does: `values` of its cells, and
    `display_pub.outputs`, are caught.
    """
    found = InteractiveShell.instance()
    found.values = []
    monkeypatch.setattr(found, "display_pub", CapturingDisplayPublisher(parent=found))
    monkeypatch.setattr(
        found.displayhook,
        "write_format_data",
        lambda data, metadata=None: found.values.append(data),
    )
    yield found
    InteractiveShell.clear_instance()


IMPORTS = (
    "import dpwitness as dpw, numpy as np\nfrom dpwitness import mechanisms as m\nfrom "
    "dpwitness.auditors import MeanBound"
)
CELLS = {
    "AuditResult": "dpw.audit(m.Laplace(epsilon=1.0), trials=20_000)",
    "CertifyResult": "dpw.certify(m.Laplace(epsilon=1.0))",
    "SensitivityResult": "dpw.audit_sensitivity(np.mean, 0.2, m.Records(4), evaluations=200)",
    "UtilityResult": "dpw.audit_utility(lambda size, rng: rng.exponential(size=size), MeanBound(2.0, "
    "deviation=1.0), runs=2_000)",
    "TraceResult": "dpw.trace(m.Laplace(epsilon=1.0))",
    "ClaimFinding": "from dpwitness.proofs_checks import check; check('CM-01', quick=True)",
    "CheckReport": "dpw.check_mechanism(m.Laplace(epsilon=1.0), trials=20_000, "
    "checks=['check_few_records'])",
}


@pytest.mark.slow_cases("AuditResult", "CertifyResult", "TraceResult")
@pytest.mark.parametrize("kind", CELLS)
def test_a_cell_shows_the_card_of_its_result(shell, parsed, kind):
    ran = shell.run_cell(f"{IMPORTS}\n{CELLS[kind]}")
    assert ran.success and type(ran.result).__name__ == kind
    (shown,) = shell.values
    page, told = shown["text/html"], " ".join(ran.result.headline().split())
    found = parsed(page)
    assert (
        f'<span class="verdict {ran.result.to_json()["verdict"]}">' in page
        and "What to do:" in page
    )
    assert not set(found.tags) & {"script", "button"} and len(found.ids) == len(set(found.ids))
    assert shown["text/plain"] == repr(ran.result) and told.split(":")[0] in shown["text/markdown"]
    assert shown["text/markdown"].startswith("### ")
    assert page.count("<svg") == {
        "AuditResult": 2,
        "CertifyResult": 2,
        "SensitivityResult": 1,
        "TraceResult": 1,
    }.get(kind, 0)


def test_a_card_has_the_pair_and_the_witness_inside(violated):
    page = notebook_html(violated)
    assert (
        "<strong>D0</strong> <mark>0</mark> <span>3</span>" in page
        and "<strong>D1</strong> <mark>1</mark> <span>3</span>" in page
    )
    witness = re.search(
        r'href="data:application/json;base64,([^"]+)" download="witness-leaky.json"', page
    )
    again = dpw.replay(json.loads(base64.b64decode(witness[1])), mechanism=leaky, seed=8)
    assert again.verdict is dpw.Verdict.VIOLATED


def test_two_cards_share_no_id_and_no_rule_leaves_the_card(violated, parsed):
    first, second = notebook_html(violated), notebook_html(violated)
    ids = [set(parsed(page).ids) for page in (first, second)]
    assert len(ids[0]) >= 3 and not ids[0] & ids[1]
    for page, own in zip((first, second), ids, strict=True):
        links = set(re.findall(r"url\(#([^)]+)\)", page)) | {
            value for key, value in parsed(page).attributes if key == "aria-labelledby"
        }
        assert links and links <= own
    style = re.search(r"<style>(.*?)</style>", first, re.S)[1]
    selectors = [
        part.strip()
        for head in re.findall(r"([^{}]+)\{", style)
        if "@media" not in head
        for part in head.split(",")
    ]
    assert len(selectors) > 20 and all(
        re.search(r"(^| )\.dpwitness\b", selector) for selector in selectors
    )


def test_markdown_has_no_link_to_a_file_that_is_not_there(violated):
    text = notebook_markdown(violated)
    assert "](" not in text and "`witness-leaky.json`" in text and "<a id" not in text


class Unshown(Result):
    kind = "unshown"

    def headline(self):
        return "ERROR: nothing"

    def to_json(self):
        raise RuntimeError("no JSON")


def test_a_card_that_fails_leaves_the_repr(shell, monkeypatch, capsys):
    unshown = Unshown(name="unshown", verdict=dpw.Verdict.ERROR)
    shell.user_ns["result"] = unshown
    assert shell.run_cell("result").success
    assert shell.values == [
        {"text/plain": "<Unshown unshown: ERROR: nothing>"}
    ] and "Traceback" not in "".join(capsys.readouterr())
    monkeypatch.setattr("dpwitness.auditors.witnesses.result._CARDS", "no.such.module")
    assert unshown._repr_html_() is None and unshown._repr_markdown_() is None


def _clock():
    times = iter(range(10**6))
    return lambda: float(next(times))


def test_the_bar_is_updated_in_its_place(shell):
    shell.user_ns["clock"] = _clock()
    ran = shell.run_cell(
        f"{IMPORTS}\nwith dpw.console.progress_bar() as bar:\n    bar._clock, bar._drawn_at "
        "= clock, -1.0\n"
        "    found = dpw.audit(m.Laplace(epsilon=1.0), trials=200_000, bits=False, progress=bar)"
    )
    assert ran.success and isinstance(shell.user_ns["bar"], NotebookBar)
    first, *updates, last = shell.display_pub.outputs
    assert (
        not first.get("update")
        and all(it["update"] for it in (*updates, last))
        and len(updates) >= 2
    )
    assert len({it["transient"]["display_id"] for it in (first, *updates, last)}) == 1
    shares = [
        float(re.search(r'<progress max="1" value="([0-9.]+)"', it["data"]["text/html"])[1])
        for it in (first, *updates)
    ]
    assert shares == sorted(shares) and 0 < shares[0] < shares[-1] <= 1
    assert last["data"] == {"text/html": "", "text/plain": ""}


def test_the_bar_of_a_terminal_and_of_a_pipe(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setitem(sys.modules, "IPython", None)
    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress_bar() as bar:
        assert type(bar) is Bar
        bar._clock = _clock()
        bar._drawn_at = -1.0
        bar(1, 2)
    assert "50%" in sys.stderr.getvalue() and sys.stderr.getvalue().endswith(" \r")
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress_bar() as bar:
        assert type(bar) is Progress
        bar(1, 2)
    assert sys.stderr.getvalue() == ""
