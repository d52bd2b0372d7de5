"""Results of audits, witnesses, the store of an audit, recomputation from counts, and replay."""
