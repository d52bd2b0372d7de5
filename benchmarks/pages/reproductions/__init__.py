"""Reproduced figures of the papers: python -m dpwitness.benchmarks.pages.reproductions. May import
the audits' reports.
"""
