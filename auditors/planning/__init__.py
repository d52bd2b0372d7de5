"""Before anything is run: how many runs find a violation, what a budget can find, and how long it takes."""
