"""Plots of results and reports, in one style. May import summaries and wording."""
