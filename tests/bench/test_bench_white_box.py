"""Every figure that the white-box audits must reach, one test a row of `dpwitness bench
white-box`.
"""

import pytest

from dpwitness.benchmarks.white_box import CASES


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_figure_is_reached(case):
    row = case.measured()
    assert row.met, f"{row.case}: {row.measured:.9g} {row.unit}, required {row.required:.9g}"
