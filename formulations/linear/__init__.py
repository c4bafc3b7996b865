"""Linear programs in rationals: floats find a vertex, exact pivots and duality prove it."""
