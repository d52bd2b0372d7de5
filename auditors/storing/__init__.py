"""Stores: files with the plans and counts of audits, from which interrupted audits resume."""
