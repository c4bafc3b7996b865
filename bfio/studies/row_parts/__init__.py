"""Arguments, instances and values shared by several row kinds."""
