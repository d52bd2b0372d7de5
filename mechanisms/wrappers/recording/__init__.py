"""Recording of noise primitives on one dataset and replay on another.

Needs only the standard library and NumPy, Python 3.8 or later. The interpreter of a foreign target
loads this folder as a separate package, so its modules import one another relatively. The
controller reads the tables of primitives (`auditors/traces/sessions`).
"""
