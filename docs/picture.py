"""Draw docs/_static/violated.svg, the picture of the README: the event of a violated audit, and the
certified bound against the claim.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import dpwitness as dpw
from dpwitness.reports.drawing import common_style, written

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "examples"))

from mine import noisy_sum  # noqa: E402


def main() -> None:
    """Audit the README's mechanism and draw two of the plots of its report side by
    side, on white.
    """
    pair = dpw.Pair(np.array([0.0]), np.array([1.0]), relation="replace-one")
    result = dpw.audit(noisy_sum, claim="pure:1", pair=pair, trials=1_000_000, seed=0)
    with common_style():
        figure, (event, profile) = plt.subplots(1, 2, figsize=(8.4, 3.3), facecolor="white")
        dpw.plot(result, "event", axes=event)
        dpw.plot(result, "profile", axes=profile)
        figure.suptitle(result.headline(), fontsize=9, y=0.98)
        figure.subplots_adjust(left=0.08, right=0.98, bottom=0.15, top=0.78, wspace=0.28)
        (HERE / "_static" / "violated.svg").write_text(written(event), encoding="utf-8")


if __name__ == "__main__":
    main()
