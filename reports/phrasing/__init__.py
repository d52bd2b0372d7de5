"""Short texts of results: numbers, names, datasets, claims, and corrections over several audits.
Imports results only.
"""
