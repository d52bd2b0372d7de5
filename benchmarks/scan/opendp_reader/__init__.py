"""Scripts that run in an interpreter with OpenDP, without dpwitness: they read its signatures, search, and replay witnesses."""
