"""Ties go to the lowest worker; here workers change places before a policy sees them."""
