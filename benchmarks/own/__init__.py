"""Modules as people write them, right and with a subtle fault, and a benchmark that audits them."""
