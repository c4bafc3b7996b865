"""Predicted remaining output lengths."""
