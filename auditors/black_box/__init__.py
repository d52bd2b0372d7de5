"""The audit that runs a mechanism: what is asked, its stages, its costs; outputs handed over. May import pairs and all below."""
