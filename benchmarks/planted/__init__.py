"""Functions with a planted fault, and the benchmark of the search for pairs."""
