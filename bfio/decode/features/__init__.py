"""Features of the machine, a folder each: what of a run nothing else states."""
