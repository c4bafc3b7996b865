"""The engine and the built-in policies as one compiled loop; it decides as `engine` does."""
