"""Every figure that the white-box audits must reach: the rows of `dpwitness bench white-box`."""

import pytest

from dpwitness.benchmarks.white_box import measure


@pytest.mark.slow
def test_every_figure_is_reached():
    rows = measure().rows
    missed = [
        f"{row.case}: {row.measured:.9g} {row.unit}, required {row.required:.9g}"
        for row in rows
        if not row.met
    ]
    assert len(rows) > 20 and not missed
