"""Read a store while another process may be writing it."""

from pathlib import Path

from bfio.studies.store import open_for_reading


def num_rows(store: Path) -> int:
    """Return the number of rows in a store; 0 if it does not exist yet or was just created."""
    if not store.exists() or store.stat().st_size == 0:
        return 0
    with open_for_reading(store) as opened:
        return opened.count()
