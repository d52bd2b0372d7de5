"""trasgodp 2.1.0: local mechanisms for columns and arrays. All noise is NumPy's global
generator.
"""

import numpy as np
import pandas as pd
from library_target import runs, seed_numpy, target
from trasgodp.categorical import dp_exponential_array, dp_randomized_response_kary_array
from trasgodp.geoindis import metric_privacy
from trasgodp.numerical import dp_clip_gaussian_array, dp_clip_laplace_array

LIBRARY = "trasgodp"


_LOW_BITS = (
    "Noise is added to the value as a 64-bit float and not rounded to a grid (Mironov 2012)."
)
_THREE = {"kind": "Records", "size": 3, "low": 0, "high": 1}
_LETTERS = np.array(list("abcd"))

laplace = target(
    "pure:1",
    _LOW_BITS,
    "numerical.dp_clip_laplace_array of 3 numbers, clipped to [0, 1], epsilon 1; one replaced.",
    **_THREE,
    outside=True,
)(runs(seed_numpy, lambda dataset: dp_clip_laplace_array(dataset, 1.0, 0.0, 1.0)))
gaussian = target(
    "approx:1,1e-3",
    _LOW_BITS,
    "numerical.dp_clip_gaussian_array of 3 numbers in [0, 1], epsilon 1, delta 1e-3; one replaced.",
    **_THREE,
)(runs(seed_numpy, lambda dataset: dp_clip_gaussian_array(dataset, 1.0, 0.0, 1.0, 1e-3)))


def _categorical(function, doc, cause="", public=()):
    """Return the target of a function of 4 records after public ones, whose outputs are dropped."""

    def one(dataset):
        values = np.array([*public, *_LETTERS[np.asarray(dataset, dtype=int)]])
        return np.searchsorted(_LETTERS, function(values, 1.0))[len(public) :]

    return target("pure:1", cause, doc, kind="Records", size=4, low=0, high=3, categories=True)(
        runs(seed_numpy, one)
    )


_SEEN = (
    "The categories are those that occur in the data, and nobody can name them: a category "
    "that only one record has is a possible output "
    "for one neighbour alone, and the probabilities depend on how many categories occur; "
    "with fewer than three the call raises."
)
_ALL = (
    "The same after one public record of each category, whose outputs are dropped: all categories "
    "occur."
)
randomized_response = _categorical(
    dp_randomized_response_kary_array,
    "categorical.dp_randomized_response_kary_array of 4 records, epsilon 1; one replaced.",
    _SEEN,
)
exponential = _categorical(
    dp_exponential_array,
    "categorical.dp_exponential_array of 4 records, epsilon 1; one replaced.",
    _SEEN,
)
randomized_response_all = _categorical(dp_randomized_response_kary_array, _ALL, public=_LETTERS)
exponential_all = _categorical(dp_exponential_array, _ALL, public=_LETTERS)

# one place in a box of 111.2 m by 85.2 m: two places are at most 140.2 m apart, which times 0.007
# per metre is below 1
_PLACE = {"kind": "Rows", "features": ((40.0, 40.001), (-3.001, -3.0)), "batch": 64}


def _places(doc, cause, size=1, columns=("lat", "lon"), seeded=True, **settings):
    """Return the target of geoindis.metric_privacy, with a seed for each run if `seeded`."""

    def run(dataset, size, rng):
        frame = pd.DataFrame(np.asarray(dataset, dtype=float), columns=["lat", "lon"])
        seeds = [{"seed": int(rng.integers(2**32))} if seeded else {} for _ in range(size)]
        found = [metric_privacy(frame, "lat", "lon", 0.007, **seed) for seed in seeds]
        return np.array([table[list(columns)].to_numpy().ravel() for table in found])

    return target("pure:1", cause, doc, **_PLACE, size=size, **settings)(run)


places = _places(
    "geoindis.metric_privacy of one place within 140 m, epsilon 0.007 per metre, a seed for each "
    "run; latitude and longitude alone.",
    _LOW_BITS,
    trials=10_000,
)
places_radius = _places(
    "The same, with all columns of the returned table.",
    "The returned table has the drawn distance `radius_m` beside the noisy place: the true "
    "place lies on that circle around it.",
    columns=("lat", "lon", "radius_m"),
    trials=10_000,
)
places_equal = _places(
    "The same for two places of two people, latitude and longitude alone.",
    "One draw is made for each distinct place: records with equal places have equal outputs, "
    "others do not.",
    size=2,
    trials=10_000,
)
places_default = _places(
    "geoindis.metric_privacy of one place without a seed; latitude and longitude alone.",
    "The parameter `seed` is 42 where nobody gives one: the noise is the same in every call "
    "and can be subtracted.",
    seeded=False,
)
