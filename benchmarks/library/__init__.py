"""How the library of instances is made, and how its best known values are improved."""
