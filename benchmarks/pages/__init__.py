"""Static site of the published pages. May import every other package of reports."""
