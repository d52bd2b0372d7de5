"""Random members of families of mechanisms whose law of the privacy loss is known, for the benchmark of power."""
