"""Mechanisms of the textbook, right and wrong, and the zoo of them. May import terms, domains, numerics and balls."""
