"""Random members of families of mechanisms whose law of the privacy loss is known, and an oracle that learns, for the benchmark of power."""
