"""Stability audit: inputs on which a transformation moves further than its stability map allows. May import results and targets."""
