"""Requests: trace readers, generators, and the one type they all return."""
