"""Validation, JSON, files and the backends of data frames: what every other room uses. Imports no other room."""
