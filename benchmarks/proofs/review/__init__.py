"""Review of the claims by a person: printed texts, and digests of the checks that they were
compared with. In the clone only.
"""
