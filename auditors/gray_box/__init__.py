"""Gray-box audits (traces): the worst pair, the findings of its trace, and their confirmation by a black-box audit.

May import the audit that runs mechanisms and all below.
"""
