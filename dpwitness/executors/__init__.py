"""Executors for audits, each a `concurrent.futures.Executor`: threads, processes, loky, MPI, Dask. May import the mechanisms' packages."""
