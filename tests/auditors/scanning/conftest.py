"""The functions of `fairground` are code as users write it: its examples are no tests."""

collect_ignore = ["fairground"]
