"""Studies: declarative sweeps whose rows survive any interruption, and reports made of them."""
