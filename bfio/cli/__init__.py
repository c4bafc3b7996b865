"""The command line: ``bfio COMMAND``."""

from bfio.cli.main import main, run

__all__ = ["main", "run"]
