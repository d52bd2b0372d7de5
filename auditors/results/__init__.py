"""What audits return, and the witnesses of what they found, written and read. May import the loss and all below."""
