"""The published pages as one linked site of static HTML. May import every other room of reports."""
