"""Audits of accountants: a library's privacy figures are compared with rigorous lower bounds on the
exact figures.
"""
