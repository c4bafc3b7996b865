"""Decisions that take effect some steps later (BF-IO, section 7.3)."""
