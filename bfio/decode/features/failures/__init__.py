"""Workers that fail and come back: who runs or is bound there waits again."""
