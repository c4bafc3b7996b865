"""Claims of the throughput paper: stability of engines with a token budget, and of networks."""
