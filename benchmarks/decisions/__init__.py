"""How long BR-0 and BR-H take for one decision."""
