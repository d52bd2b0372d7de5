"""Recall of audits on documented bugs of libraries, before and after their repair: corpus, campaign
and figures.
"""
