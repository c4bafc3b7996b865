"""``python -m bfio`` is ``bfio``."""

import sys

from bfio.cli import main

sys.exit(main())
