"""Solvers, losses, noise and draws, compiled. May import the terms and the domains."""
