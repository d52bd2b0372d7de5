"""One audit for a person who decides: its facts, as markdown, by kind of result. May import words."""
