"""Recording of the draws of noise primitives in a run on one dataset, and replay of the run on
another dataset.

Needs only the standard library and NumPy, Python 3.8 or later: `programs.inside` loads this folder
in the interpreter of a library. The controller reads the tables of primitives
(`auditors/traces/sessions`).
"""
