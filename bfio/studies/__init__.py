"""Studies: declarative sweeps with rows that survive interruptions, and their reports."""
