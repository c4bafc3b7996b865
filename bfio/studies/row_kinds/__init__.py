"""Built-in kinds of rows, one module each with a ``KIND``."""
