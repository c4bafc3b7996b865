"""Workers that are slow for a while; policies are not told."""
