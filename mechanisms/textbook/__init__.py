"""Textbook mechanisms, correct and broken, and the zoo that collects them. May import the packages
up to balls.
"""
