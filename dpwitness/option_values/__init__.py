"""Values of command-line options: numbers, filters of names, datasets from JSON, targets and other objects of the user."""
