"""Asks the network at import."""

import urllib.request

with urllib.request.urlopen("http://198.51.100.1/") as answer:
    ANSWER = answer.read()
