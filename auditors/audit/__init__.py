"""Black-box audit: runs a mechanism in stages, measures costs, and audits given outputs. May import
pairs and all lower packages.
"""
