"""Generation of the library of instances, and improvement of its best known values."""
