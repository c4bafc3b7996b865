"""Memory of the workers: who may start, and what happens where it overflows."""
