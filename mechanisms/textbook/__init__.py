"""Textbook mechanisms, correct and broken, and the zoo that collects them. May import terms, domains, numerics and balls."""
