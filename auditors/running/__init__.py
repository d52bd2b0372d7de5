"""Chunks of rounds on any executor, counted where they are run; fitness, repeats and scores of what is run. May import the results."""
