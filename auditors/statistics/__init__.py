"""Limits and tests that hold at a stated error, and the fits that events are chosen by. Imports mechanisms alone."""
