"""Offline optima (in hindsight): all future arrivals are known."""
