"""Core types of the package: notions, pairs, datasets, protocols, validation and JSON files. Imports no other dpwitness package."""
