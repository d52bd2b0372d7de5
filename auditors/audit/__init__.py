"""The statistical audit in stages, audits of given outputs, the plan of an audit, and `watch`."""
