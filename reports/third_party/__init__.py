"""Third-party libraries: audited targets, exact privacy loss laws, and the published page. May import the audits' reports."""
