"""Textbook mechanisms, correct and broken, and the zoo that collects them. May import core, data, privacy, protocols, domains, numerics and balls."""
