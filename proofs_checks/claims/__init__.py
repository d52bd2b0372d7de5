"""Claims of the papers, one file per section. The ledger imports every module whose name ends in
`_claims`. May import the engine.
"""
