"""How fast rounds are drawn and counted, what more workers bring, and what an audit survives. May import all but the commands."""
