"""Claims of the BF-IO paper (load balancing with short look-ahead)."""
