"""Scan of a package or folder: what its public names are, which of them make a privacy claim, and
the audits of these claims.

`names` holds the descriptions from the package's interpreter. `vocabulary`, `arguments`,
`data_forms`, `claims`, `recipes` and `readings` are pure functions: they read a description and
propose calls. `trials` runs the calls, `proposals` chooses, `target_file` writes, and `audits`
audits. `scan` joins them.
"""
