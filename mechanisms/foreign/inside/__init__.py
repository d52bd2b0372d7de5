"""What runs inside a target's interpreter: standard library and NumPy, Python 3.8 or later, for it may have no dpwitness.

`worker` is started as a script and reads the others by their place; the controller imports `wire` for its end of the pipe.
"""
