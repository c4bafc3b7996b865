"""Studies and micro-benchmarks; they run from a checkout."""
