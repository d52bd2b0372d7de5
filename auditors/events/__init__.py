"""Outputs as numbers; the guess rules about them, as data; and how one is learned. May import encoding, statistics and targets."""
