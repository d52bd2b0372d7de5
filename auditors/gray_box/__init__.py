"""The trace: noise primitives recorded on one dataset and played back on the other, compared, priced, and confirmed by audits.

May import the audit that runs mechanisms and all below.
"""
