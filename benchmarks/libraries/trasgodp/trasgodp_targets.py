"""trasgodp 2.1.0: local mechanisms for columns and arrays. All noise is NumPy's global
generator.
"""

import numpy as np
import pandas as pd
from trasgodp.categorical import dp_exponential_array, dp_randomized_response_kary_array
from trasgodp.geoindis import metric_privacy
from trasgodp.numerical import dp_clip_gaussian_array, dp_clip_laplace_array

LIBRARY = "trasgodp"
TESTED = ">=2.1,<2.2"
INSTALL = "pip install trasgodp==2.1.0"


def _target(claim, cause="", **domain):
    def declare(function):
        function.claim, function.domain, function.cause = claim, domain, cause
        return function

    return declare


def _runs(one, size, rng):
    np.random.seed(rng.integers(2**32, dtype=np.uint64))
    return np.array([one() for _ in range(size)])


_LOW_BITS = (
    "Noise is added to the value as a 64-bit float and not rounded to a grid (Mironov 2012)."
)
_LETTERS = np.array(list("abcd"))


@_target("pure:1", _LOW_BITS, kind="Records", size=3, low=0, high=1, outside=True)
def laplace(dataset, size, rng):
    """numerical.dp_clip_laplace_array of 3 numbers, clipped to [0, 1], epsilon 1; one replaced."""
    return _runs(lambda: dp_clip_laplace_array(dataset, 1.0, 0.0, 1.0), size, rng)


@_target("approx:1,1e-3", _LOW_BITS, kind="Records", size=3, low=0, high=1)
def gaussian(dataset, size, rng):
    """numerical.dp_clip_gaussian_array of 3 numbers in [0, 1], epsilon 1, delta 1e-3;
    one replaced.
    """
    return _runs(lambda: dp_clip_gaussian_array(dataset, 1.0, 0.0, 1.0, 1e-3), size, rng)


def _categorical(function, dataset, size, rng, public=()):
    values = np.array([*public, *_LETTERS[np.asarray(dataset, dtype=int)]])
    return _runs(lambda: np.searchsorted(_LETTERS, function(values, 1.0))[len(public) :], size, rng)


_FOUR = {"kind": "Records", "size": 4, "low": 0, "high": 3, "categories": True}
_SEEN = (
    "The categories are those that occur in the data, and nobody can name them: a category "
    "that only one record has is a possible output "
    "for one neighbour alone, and the probabilities depend on how many categories occur; "
    "with fewer than three the call raises."
)


@_target("pure:1", _SEEN, **_FOUR)
def randomized_response(dataset, size, rng):
    """categorical.dp_randomized_response_kary_array of 4 records, epsilon 1; one replaced."""
    return _categorical(dp_randomized_response_kary_array, dataset, size, rng)


@_target("pure:1", _SEEN, **_FOUR)
def exponential(dataset, size, rng):
    """categorical.dp_exponential_array of 4 records, epsilon 1; one replaced."""
    return _categorical(dp_exponential_array, dataset, size, rng)


@_target("pure:1", "", **_FOUR)
def randomized_response_all(dataset, size, rng):
    """The same after one public record of each category, whose outputs are dropped: all categories
    occur.
    """
    return _categorical(dp_randomized_response_kary_array, dataset, size, rng, public=_LETTERS)


@_target("pure:1", "", **_FOUR)
def exponential_all(dataset, size, rng):
    """The same after one public record of each category, whose outputs are dropped: all categories
    occur.
    """
    return _categorical(dp_exponential_array, dataset, size, rng, public=_LETTERS)


# one place in a box of 111.2 m by 85.2 m: two places are at most 140.2 m apart, which times 0.007
# per metre is below 1
_PLACE = {"kind": "Rows", "features": ((40.0, 40.001), (-3.001, -3.0))}


def _places(dataset, size, rng, columns, seeded=True):
    frame = pd.DataFrame(np.asarray(dataset, dtype=float), columns=["lat", "lon"])
    seeds = [{"seed": int(rng.integers(2**32))} if seeded else {} for _ in range(size)]
    return np.array(
        [
            metric_privacy(frame, "lat", "lon", 0.007, **seed)[columns].to_numpy().ravel()
            for seed in seeds
        ]
    )


@_target("pure:1", _LOW_BITS, **_PLACE, size=1)
def places(dataset, size, rng):
    """geoindis.metric_privacy of one place within 140 m, epsilon 0.007 per metre, a seed for each
    run; latitude and longitude alone.
    """
    return _places(dataset, size, rng, ["lat", "lon"])


@_target(
    "pure:1",
    "The returned table has the drawn distance `radius_m` beside the noisy place: the true "
    "place lies on that circle around it.",
    **_PLACE,
    size=1,
)
def places_radius(dataset, size, rng):
    """The same, with all columns of the returned table."""
    return _places(dataset, size, rng, ["lat", "lon", "radius_m"])


@_target(
    "pure:1",
    "One draw is made for each distinct place: records with equal places have equal outputs, "
    "others do not.",
    **_PLACE,
    size=2,
)
def places_equal(dataset, size, rng):
    """The same for two places of two people, latitude and longitude alone."""
    return _places(dataset, size, rng, ["lat", "lon"])


@_target(
    "pure:1",
    "The parameter `seed` is 42 where nobody gives one: the noise is the same in every call "
    "and can be subtracted.",
    **_PLACE,
    size=1,
)
def places_default(dataset, size, rng):
    """geoindis.metric_privacy of one place without a seed; latitude and longitude alone."""
    return _places(dataset, size, rng, ["lat", "lon"], seeded=False)


places.trials = places_radius.trials = places_equal.trials = 10_000
places.batch = places_radius.batch = places_equal.batch = places_default.batch = 64
