"""Mutation of claims and of the auditors: mutants, and the share of them that tests notice."""
