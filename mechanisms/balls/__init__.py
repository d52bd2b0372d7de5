"""Ball arithmetic for proofs: enclosures of output laws, noisy maxima and minimizers.

May import core terms and numerics.
"""
