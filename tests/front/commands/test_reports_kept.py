"""Tests of existing reports: a run removes witnesses of earlier runs, and does not replace a good
report by an empty one.
"""

import json

import numpy as np

from dpwitness import Pair, audit
from dpwitness.reports.report import write_report


def _mechanism(scale):
    def mechanism(dataset, size, rng):
        return np.round(1024 * (dataset[0] + rng.laplace(0.0, scale, size))) / 1024

    return mechanism


def test_witness_of_a_report_goes_with_it(tmp_path):
    pair = Pair(np.zeros(1), np.ones(1))
    (tmp_path / "witness-other.json").write_text("{}")
    for scale, there in ((0.4, True), (1.5, False)):
        result = audit(_mechanism(scale), claim="pure:1", pair=pair, trials=4_000)
        write_report([result], tmp_path, title="t", plots=False)
        assert (tmp_path / "witness-mechanism.json").exists() == there
    assert (tmp_path / "witness-other.json").exists()  # is not of this report
    lying = json.loads((tmp_path / "audit.json").read_text())
    lying["results"][0]["witness_file"] = "../witness-other.json"
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "audit.json").write_text(json.dumps(lying))
    write_report([result], tmp_path / "in", title="t", plots=False)
    assert (tmp_path / "witness-other.json").exists()
