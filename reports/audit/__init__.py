"""Reports of audits: cards, plots, markdown and JSON, and the words that all pages share. May import auditors and mechanisms."""
