"""Formats of a report document: markdown, HTML, SARIF, JUnit XML and CI step summary. May import
phrasing, plots and cards.
"""
