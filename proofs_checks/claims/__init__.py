"""The claims of the papers, one file a section; the ledger finds every file whose name ends in `_claims`. May import the engine."""
