"""Ball arithmetic for proofs: enclosures of output laws, noisy maxima and minimizers.

May import numerics and the packages below it.
"""
