"""What several kinds of rows share: their arguments, instances and values."""
