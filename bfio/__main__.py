"""``python -m bfio`` is ``bfio``."""

from bfio.cli import run

run()
