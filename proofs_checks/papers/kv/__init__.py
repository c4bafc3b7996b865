"""Claims of the KV-cache paper."""
