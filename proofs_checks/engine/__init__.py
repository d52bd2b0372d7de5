"""The ledger of claims, what a check ends with, enclosures, and the mutants that a check must turn. May import the auditors."""
