"""Cards: the facts of one audit as markdown, by kind of result. May import phrasing."""
