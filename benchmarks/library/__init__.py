"""Generate the library of instances, and improve its best known results."""
