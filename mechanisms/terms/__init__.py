"""What everything is said in: notions, pairs, datasets, protocol, validation, and the files that hold them. Imports nothing above."""
