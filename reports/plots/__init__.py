"""Every picture of the house, in one style. May import words."""
