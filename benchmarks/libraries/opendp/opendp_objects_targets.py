"""OpenDP's interactive composition: a compositor, an odometer and a filter against adversaries. The
library takes no seed.
"""

import functools

import opendp.prelude as dp

import dpwitness as dpw

LIBRARY = "opendp"

dp.enable_features("contrib")

_SPACE = (dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l1_distance(T=float))
_DOMAIN = {"kind": "Answers", "length": 2, "low": 0, "high": 10, "relation": "l1"}


@functools.cache
def _laplace(scale):
    return dp.m.make_laplace(*_SPACE, scale=scale)


@functools.cache
def _compositor():
    return dp.c.make_adaptive_composition(
        *_SPACE, dp.max_divergence(), d_in=1.0, d_mids=[0.25, 0.25, 0.5]
    )


@functools.cache
def _odometer():
    return dp.c.make_fully_adaptive_composition(*_SPACE, dp.max_divergence())


@functools.cache
def _filter():
    return dp.c.make_privacy_filter(_odometer(), d_in=1.0, d_out=1.0)


class _Queries:
    """A query is the scale of Laplace noise on both answers; what the library refuses is seen by
    the name of its error.
    """

    make = None

    def start(self, dataset, rng):
        self.queryable = type(self).make()([float(value) for value in dataset])

    def ask(self, scale):
        try:
            return self.queryable(_laplace(float(scale)))
        except dp.OpenDPException as error:
            return error.variant


class _Composed(_Queries):
    make = staticmethod(_compositor)


class _Filtered(_Queries):
    make = staticmethod(_filter)


class _Metered(_Queries):
    """The odometer is read before each query, and a query that would pass 1 is not asked."""

    make = staticmethod(_odometer)

    def ask(self, scale):
        if self.queryable.privacy_loss(1.0) + 1 / float(scale) > 1.0 + 1e-9:
            return "spent"
        return _Queries.ask(self, scale)


_ASKED = {"queries": [2.0, 4.0], "rounds": 5, "claim": "pure:1", "domain": _DOMAIN, "seeded": False}

# All of the budget and no more: a refusal takes the library a tenth of a second
adaptive_composition = dpw.wrap.interactive(_Composed, [4.0, 4.0, 2.0], **_ASKED)
privacy_filter = dpw.wrap.interactive(_Filtered, [4.0, 2.0, 4.0], **_ASKED)
odometer = dpw.wrap.interactive(_Metered, [2.0, 4.0, 2.0, 4.0], **_ASKED)
