"""Parts shared by several kinds of rows: arguments, instances and values."""
