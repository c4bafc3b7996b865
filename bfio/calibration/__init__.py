"""Constants of the step-time model from measured steps, and the loop that measures them."""
