"""A predictor by gradient boosting: features, training, and one that fits again as it goes."""
