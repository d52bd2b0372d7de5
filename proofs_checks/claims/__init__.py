"""Claims of the papers, by paper and topic. The ledger imports every module whose name ends in
`_claims`. May import the engine.
"""
