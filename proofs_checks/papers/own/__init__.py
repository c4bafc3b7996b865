"""Our own claims: what the papers use without saying, and what follows from them."""
