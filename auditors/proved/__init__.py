"""Ends of the privacy profile that ball arithmetic proves. May import the results and the loss."""
