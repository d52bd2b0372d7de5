"""Datasets of a worker: large ones travel once, and each batch gets a fresh copy, whose changes are
noticed.

`worker` loads this module too, so the module uses only the standard library (Python 3.8 or later).
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or __name__ != "dpwitness_dataset_cache":
    from dpwitness.core.values import dataframe_backends
    from dpwitness.mechanisms.wrappers.programs.inside import codec, introspection
else:  # in a worker, whose interpreter may have no dpwitness
    codec, introspection = sys.modules["dpwitness_codec"], sys.modules["dpwitness_introspection"]
    dataframe_backends = codec.dataframe_backends

_WATCHED_BATCHES = 8  # batches after which a frame is no longer checked for changes


class DatasetCache:
    """Received datasets, by key, and the frames that were built from them."""

    def __init__(self) -> None:
        self.entries: OrderedDict[str, tuple[Any, codec.Blobs]] = OrderedDict()
        self.ready: dict[str, tuple[Any, Any]] = {}  # frames, and their state before the first run
        self.watched: dict[str, int] = {}

    def copy(self, header: codec.Message, blobs: codec.Blobs) -> tuple[Any, Any]:
        """Return a fresh copy of a request's dataset, and its state before the run; None for the
        state if it is no longer checked.
        """
        key: str = header.get("key", "")
        if "data" in header:
            found = header["data"], blobs
            if key:
                self.entries[key] = found
                if len(self.entries) > codec.CACHE_SIZE:
                    gone, _ = self.entries.popitem(last=False)
                    self.ready.pop(gone, None)
        else:
            found = self.entries[key]
        # changes of a copy cannot affect the next batch, so only the first calls are checked
        if key in self.ready:
            built, before = self.ready[key]
            self.watched[key] += 1
            return dataframe_backends.shallow_copy(built), before if self.watched[
                key
            ] < _WATCHED_BATCHES else None
        try:
            dataset = codec.unpack(*found)
        except dataframe_backends.UnsupportedData as error:
            raise introspection.Unfit(f"the dataset cannot be built here: {error}") from None
        before, light = dataset_state(dataset), dataframe_backends.shallow_copy(dataset)
        if key and light is not None:
            self.ready[key], self.watched[key] = (dataset, before), 0
            return light, before
        return dataset, before


def dataset_state(dataset: Any) -> Any:
    """Return the packed form of a dataset, for comparison after a run."""
    blobs: codec.Blobs = []
    try:
        return codec.pack_dataset(dataset, blobs), blobs
    except dataframe_backends.UnsupportedData as error:
        return str(error), []
