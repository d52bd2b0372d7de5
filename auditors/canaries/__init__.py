"""Private training audited from one run, by canaries that fair coins included or left out. May import results, loss and statistics."""
