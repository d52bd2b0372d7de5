"""Random members of families of mechanisms with a known law of the privacy loss, and an oracle that
learns, for the benchmark of power.
"""
