"""Planning before any run: required number of runs, detectable violations, and expected time.

May import the same packages as the audits.
"""
