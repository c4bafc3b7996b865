"""Power laws of a value over an argument, fitted to the logarithms of all rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

from bfio.studies.report.selection import number_of
from bfio.studies.report.statistics import Estimate, Number, PowerLaw, as_number, power_law
from bfio.studies.report_plan import LOGARITHM
from bfio.studies.row import Row


@dataclass(frozen=True)
class Fit:
    """A power law, if there is one, with the rows it is fitted to and those without logarithm."""

    law: PowerLaw | None
    used: Sequence[Row]
    refused: Sequence[Row]

    def exponent(self) -> Estimate:
        """Return the exponent, its interval, and of how many rows it is."""
        undefined = len(self.refused)
        if self.law is None:
            return Estimate(None, None, 0, undefined)
        return Estimate(self.law.exponent, self.law.interval, self.law.count, undefined)


def fitted(rows: Sequence[Row], x: str, y: str, beside: Sequence[str] = ()) -> Fit:
    """Fit the value ``y`` of rows over their argument ``x``, in one regression with others.

    An argument may be preceded by ``ln``: its logarithm stands for it.
    """
    used: list[Row] = []
    refused: list[Row] = []
    points = []
    for row in rows:
        point = [_factor(row, x), number_of(row, y), *(_factor(row, name) for name in beside)]
        numbers = [number for number in point if number is not None and number > 0]
        if len(numbers) < len(point):
            refused.append(row)
        else:
            used.append(row)
            points.append(numbers)
    return Fit(power_law(*zip(*points, strict=True)) if points else None, used, refused)


def _factor(row: Row, name: str) -> Number | None:
    value = as_number(row.task.arguments.get(name.removeprefix(LOGARITHM)))
    if value is None or not name.startswith(LOGARITHM):
        return value
    return log(value) if value > 0 else None
