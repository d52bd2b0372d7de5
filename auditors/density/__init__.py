"""Laws of the privacy loss, the worst output, the limit of an audit, and `certify`, which tests a
density against its sampler.
"""
