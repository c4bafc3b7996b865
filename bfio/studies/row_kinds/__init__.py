"""The built-in kinds of rows: one module per kind, each with a ``KIND``."""
