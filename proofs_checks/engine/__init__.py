"""The claim ledger, the findings of its checks, interval enclosures, and mutation tests of the
checks. May import the auditors.
"""
