"""The claims, a folder per paper; every module here with a ``CLAIMS`` is found by itself."""
