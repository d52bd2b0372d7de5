"""Commands of ``dpwitness``: `table` declares them with their options, the other modules run them.
Commands may import all other packages.
"""
