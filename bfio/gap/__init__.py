"""How far each decision of a policy is from the proven optimum of its step."""
