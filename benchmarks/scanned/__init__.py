"""Scans of libraries whose findings are frozen: rows with their witnesses, replayed in the library's interpreter."""
