"""What a mechanism is, and what it may offer beside sampling. May import `privacy` and all below."""
