"""Where rounds are run: threads, processes, loky, MPI, Dask. Each is a `concurrent.futures.Executor`. May import the mechanisms' rooms."""
