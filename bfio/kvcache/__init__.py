"""One worker with a KV cache: algorithms that start requests, two engines, a checker of runs."""
