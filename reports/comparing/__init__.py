"""Two reports held against each other, and findings that were accepted. May import the report."""
