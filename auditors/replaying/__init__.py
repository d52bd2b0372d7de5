"""Witnesses, tested again. May import every audit."""
