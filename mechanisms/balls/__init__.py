"""Ball arithmetic: laws, maxima and minimisers enclosed, for proofs. May import the terms and the numerics."""
