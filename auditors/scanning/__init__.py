"""Scan of a package, folder or file: where its code draws noise, which functions make a privacy
claim, and the audits of these claims.

`noise_map` reads the source. `ranges` and `promises` read bounds of data, claims and relations from
a function. `calls` proposes calls and makes them in the package's interpreter, `proposals`
turns them into targets, and `scan` joins the steps, writes the target file and audits its targets.
"""
