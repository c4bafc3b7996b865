"""Who goes where: baselines, BR-0, BR-H, BF-IO exact, and the registry users extend."""
