"""Results and the progress bar in a notebook, in a real IPython shell whose displays are caught."""

import base64
import json
import re

import numpy as np
import pytest
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell

import dpwitness as dpw
from dpwitness.reports.html_format import notebook_html

PAIR = dpw.Pair(np.array([0.0, 3.0]), np.array([1.0, 3.0]))


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
    assert page.count("<svg") == {"AuditResult": 2, "CertifyResult": 2}.get(kind, 0)


def test_a_card_has_the_pair_and_the_witness_inside():
    def leaky(dataset, size, rng):
        return np.sum(dataset) + rng.laplace(0.0, 0.5, size)

    page = notebook_html(dpw.audit(leaky, claim="pure:1", pair=PAIR, trials=4_000, seed=1))
    assert (
        "<strong>D0</strong> <mark>0</mark> <span>3</span>" in page
        and "<strong>D1</strong> <mark>1</mark> <span>3</span>" in page
    )
    witness = re.search(
        r'href="data:application/json;base64,([^"]+)" download="witness-leaky.json"', page
    )
    again = dpw.replay(json.loads(base64.b64decode(witness[1])), mechanism=leaky, seed=8)
    assert again.verdict is dpw.Verdict.VIOLATED
