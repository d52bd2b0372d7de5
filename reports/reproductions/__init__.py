"""Figures of the papers, computed again: python -m dpwitness.reports.reproductions. May import the audits' reports."""
