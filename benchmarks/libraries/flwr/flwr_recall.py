"""Flower: the local privacy mod of a client's app."""

import logging

import numpy as np
from flwr.client.mod import LocalDpMod
from flwr.common import (
    Code,
    Context,
    FitIns,
    FitRes,
    Message,
    Metadata,
    RecordSet,
    Status,
    ndarrays_to_parameters,
    parameters_to_ndarrays,
)
from flwr.common import recordset_compat as compat
from flwr.common.constant import MessageType
from library_target import target

LIBRARY = "flwr"

logging.disable(logging.CRITICAL)
logging.getLogger("flwr").setLevel(logging.CRITICAL)


def _message(content):
    metadata = Metadata(
        run_id=0,
        message_id="",
        src_node_id=0,
        dst_node_id=0,
        reply_to_message="",
        group_id="",
        ttl=1e6,
        message_type=MessageType.TRAIN,
    )
    return Message(metadata, content)


@target(
    "approx:1,1e-5",
    batch=1024,
    seeded=False,
    kind="Rows",
    size=1,
    features=((-1, 1), (-1, 1)),
    outside=True,
)
def local_dp(dataset, size, rng):
    """LocalDpMod(clipping_norm=1, sensitivity=2, epsilon=1, delta=1e-5) of an update with two
    weights; any two updates are neighbors.
    """
    np.random.seed(int(rng.integers(2**32, dtype=np.uint64)))
    mod = LocalDpMod(clipping_norm=1.0, sensitivity=2.0, epsilon=1.0, delta=1e-5)
    start, trained = np.zeros(2), np.array(dataset, dtype=float).ravel()
    context = Context(run_id=0, node_id=0, node_config={}, state=RecordSet(), run_config={})
    found = []

    def train(message, _):
        result = FitRes(Status(Code.OK, ""), ndarrays_to_parameters([trained.copy()]), 1, {})
        return message.create_reply(compat.fitres_to_recordset(result, keep_input=True))

    for _ in range(size):
        instructions = compat.fitins_to_recordset(
            FitIns(ndarrays_to_parameters([start.copy()]), {}), keep_input=True
        )
        reply = mod(_message(instructions), context, train)
        found.append(
            parameters_to_ndarrays(
                compat.recordset_to_fitres(reply.content, keep_input=True).parameters
            )[0]
        )
    return np.array(found)
