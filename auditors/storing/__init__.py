"""The store: what an audit has planned and counted, in one file, so that it goes on where it was stopped."""
