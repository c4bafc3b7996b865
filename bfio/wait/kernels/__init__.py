"""The engine with built-in policies as compiled loops; they decide as the reference does."""
