"""Helpers of the tests of outputs: an object with a text, a journey to a worker and back, and a
short audit.
"""

import io

import numpy as np

from dpwitness import Pair, audit
from dpwitness.mechanisms.wrappers.programs.inside import codec

PAIR = Pair(np.array([0.0]), np.array([1.0]))


class Written:
    def __init__(self, value):
        self.value = value

    def __repr__(self):
        return "<written>"


def sent(value):
    """Return a value as it comes back from a worker in another interpreter."""
    blobs: list[bytes] = []
    packed = codec.pack(value, blobs)
    message = io.BytesIO(b"".join(codec.message({"d": packed}, blobs)))
    header, received = codec.receive(message.readline, message.read)
    return codec.unpack(header["d"], received)


def audited(run, trials=1_000, **options):
    return audit(run, claim="pure:1", pair=PAIR, trials=trials, seed=1, **options)
