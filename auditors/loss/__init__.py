"""The law of the privacy loss, the worst output, the limit, and density held against sampler. May import the events."""
