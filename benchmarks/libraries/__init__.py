"""Third-party libraries: a folder for each with targets, environments and documented bugs, and the
suite of known results.
"""
