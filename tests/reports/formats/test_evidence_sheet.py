"""The evidence sheet of SP 800-226: what it states is what an audit measured."""

import numpy as np

from dpwitness import Pair, audit
from dpwitness.reports.document import build_document
from dpwitness.reports.markdown_formats import NOT_COVERED, sheet

PAIR = Pair(np.array([0.0]), np.array([1.0]))


def test_the_sheet_says_what_was_measured_and_what_was_not():
    def leaky(dataset, size, rng):
        return np.round((dataset[0] + rng.laplace(scale=0.2, size=size)) * 1024) / 1024

    found = audit(leaky, claim="pure:1", pair=PAIR, bits=False, trials=4_000, seed=1)
    text = sheet(build_document([found], title="t"))
    rows = dict(
        line.strip("| ").split(" | ", 1)
        for line in text.splitlines()
        if line.startswith("| ") and "---" not in line
    )
    assert rows["epsilon and delta, as claimed"] == "`pure:1`"
    assert f"epsilon > {found.epsilon_lower:.4g} against" in rows["epsilon, certified from below"]
    assert (
        "VIOLATED" in rows["outputs against the claim"]
        and "test_evidence_sheet.py" in rows["algorithm and implementation"]
    )
    assert rows["floating point"] == f"*{NOT_COVERED}*"
    open_questions = (
        "sensitivity and contribution bounds",
        "accounting and composition",
        "utility",
        "data collection",
    )
    assert all(rows[subject] == f"*{NOT_COVERED}*" for subject in open_questions)
