"""Recording of noise primitives on one dataset and replay on another.

Needs only the standard library and NumPy, Python 3.8 or later. The interpreter of a foreign target
loads this folder as a separate package, so its modules import one another relatively. Only the
controller uses `catalogue`, which reads the tables of primitives.
"""
