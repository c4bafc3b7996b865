"""Instances on which a policy is worst beside the optimum, found by search, with certificates."""
