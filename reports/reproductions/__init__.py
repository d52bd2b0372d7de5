"""Reproduced figures of the papers: python -m dpwitness.reports.reproductions. May import the audits' reports."""
