"""Laws of the privacy loss, the worst output, the limit of an audit, and tests of a density against
its sampler. May import the events.
"""
