"""Analysis of traces: noise primitives recorded on one dataset and replayed on its neighbor,
findings, and the composed privacy loss.

May import the enclosures of the privacy loss and all below. The audits that use traces are above.
"""
