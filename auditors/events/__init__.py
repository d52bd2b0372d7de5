"""Outputs as numbers; the guess rules about them, as data; and how one is learned. May import statistics and targets."""
