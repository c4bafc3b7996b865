"""Rows of studies: computed without extra processes, counted in a store, described by a kind."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bfio.studies.row import Limits, Row, RowResult
    from bfio.studies.worker import Order


def compute_here(orders: "Sequence[Order]", limits: "Limits", *others: object) -> Iterator["Row"]:
    """Yield rows as `compute_locally`, including the serialisation of orders and rows."""
    from bfio.studies.supervisor import finished
    from bfio.studies.worker import Order, computed_row, from_bytes, to_bytes
    from formulations.named_objects import found_from

    del limits, others
    for order in orders:
        with found_from(Path(order.home)):
            row = computed_row(Order.from_bytes(order.to_bytes()))
        yield finished(replace(from_bytes(to_bytes(row))[0], task=order.task), attempts=1)


def num_rows(store: Path) -> int:
    """Return the number of rows in a store that another process may be writing, 0 without one."""
    from bfio.studies.store import open_for_reading

    if not store.exists() or store.stat().st_size == 0:
        return 0
    with open_for_reading(store) as opened:
        return opened.count()


def undescribed(kind: str, row: "RowResult") -> list[str]:
    """Return the values, series and timings of a row that its kind does not describe."""
    from bfio.studies import kinds

    names = [*row.values, *row.series, *row.timings]
    return [name for name in names if not kinds.describe(kind, name).text]


def compute_row(kind: str, folder: Path = Path(), /, **arguments: object) -> "RowResult":
    """Compute one row, its arguments checked first as a study does, and check what it holds."""
    from bfio.studies import kinds
    from bfio.studies.row import RowContext, RowResult, canonical

    chosen, context = kinds.find(kind), RowContext(folder)
    assert len(chosen.instance(arguments, context)) == 16
    result = chosen.compute(arguments, context)
    assert isinstance(result, RowResult)
    assert undescribed(chosen.name, result) == []
    # What a store keeps: plain JSON without NaN or infinity.
    canonical(result.values)
    canonical(result.series)
    return result
