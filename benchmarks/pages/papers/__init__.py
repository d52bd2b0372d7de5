"""Pages and plots of the papers' claims. May import the audits' reports and the proofs."""
