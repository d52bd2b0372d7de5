"""What is known of other people's libraries: their rows, the laws of their losses, their page. May import the audits' reports."""
