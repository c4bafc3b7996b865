"""Search for instances with the largest ratio of a policy to the optimum, with certificates."""
