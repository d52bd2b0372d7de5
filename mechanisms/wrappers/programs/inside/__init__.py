"""Modules that run in a target's interpreter: standard library and NumPy, Python 3.8 or later,
because dpwitness may be missing there.

`worker` is started as a script and imports the other modules from its own copy of dpwitness; the
controller imports `codec` for its end of the pipe.
"""
