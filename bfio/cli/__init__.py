"""The command line: ``bfio COMMAND``."""

from bfio.cli.main import main

__all__ = ["main"]
