"""What a request has to be served within: limits on time to first token and time per token."""
