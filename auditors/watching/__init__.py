"""Watched releases: slices of a sequential audit, one per call, in a store, and discoveries over a list of targets."""
