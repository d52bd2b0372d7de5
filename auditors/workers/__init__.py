"""Execution of rounds in chunks on any executor: counting, fitness checks, repeats and scores. May
import the results.
"""
