"""The claims, one folder per paper. The registry finds every module with ``CLAIMS``."""
