"""dpcrpy 1.0.0: prefix sums of a stream under continual release. All noise is NumPy's global
generator.
"""

from dpcrpy.bitMethods.bcrg import BCRG
from dpcrpy.bitMethods.fda import FDA
from dpcrpy.framework.noiMech import GaussNoiMech, LapNoiMech
from dpcrpy.treeMethods.binMech import BinMech
from dpcrpy.treeMethods.honaker import Honaker
from library_target import runs, seed_numpy, target

LIBRARY = "dpcrpy"

_LOW_BITS = "Noise is added to the sums as 64-bit floats and not rounded to a grid (Mironov 2012)."


def _stream(claim, length, method, noise, **parameters):
    def one(dataset):
        mechanism = method(noiMech=noise(), **parameters)
        return [float(mechanism.dpRelease(float(x))[0]) for x in dataset]

    doc = (
        f"{method.__name__} over {length} numbers, {noise().__class__.__name__}; one number "
        "changes by at most 1."
    )
    domain = {"kind": "Answers", "length": length, "low": 0, "high": 1, "relation": "l1"}
    return target(claim, _LOW_BITS, doc, **domain)(runs(seed_numpy, one))


_laplace = lambda: LapNoiMech(epsilon=1.0)  # noqa: E731
_SIGMA = GaussNoiMech(epsilon=1.0, delta=1e-5).sigma0  # found by a search that takes a while
_gauss = lambda: GaussNoiMech(sigma0=_SIGMA)  # noqa: E731

binary = _stream("pure:1", 4, BinMech, _laplace, kOrder=2)
honaker = _stream("pure:1", 4, Honaker, _laplace, kOrder=2)
fda = _stream("pure:1", 7, FDA, _laplace, kOrder=3)
bcrg = _stream("approx:1,1e-5", 7, BCRG, _gauss, kOrder=3)
