"""Our own claims: implicit assumptions of the papers, and consequences."""
