"""Values of command-line options: numbers, filters of names, datasets from JSON, targets, and objects of the user; example of `init`."""
