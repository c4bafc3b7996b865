"""The claims, one folder per paper. The registry finds every module here that has ``CLAIMS``."""
