"""Mechanisms by name: where they lie, how they are built again, and whether a file may have them run. Imports mechanisms alone."""
