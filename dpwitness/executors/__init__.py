"""Executors for audits, each a `concurrent.futures.Executor`: threads, processes, Dask. May import
the mechanisms' packages.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
