"""What the rows of a study can compute: one module per kind, each with a ``KIND``."""
