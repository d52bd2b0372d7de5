"""Gray-box audits (traces): noise primitives recorded on one dataset and replayed on the other.

The trace compares the runs, computes the privacy loss, and confirms findings by audits. May import the audit that runs mechanisms and all
below.
"""
