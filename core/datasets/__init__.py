"""Datasets, their records, neighboring relations and pairs. May import `core`."""
