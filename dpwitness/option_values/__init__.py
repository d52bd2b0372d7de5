"""Values of command-line options: numbers, filters of names, datasets from JSON, targets, objects
of the user; the example of `init`.
"""
