"""Noise primitives recorded on one dataset and played back on another. Stands alone (standard library and NumPy, Python 3.8 or later).

The interpreter of a foreign target loads this folder as a package of its own, so its modules import one another relatively; `catalogue`,
which reads the tables of primitives, belongs to the controller alone.
"""
