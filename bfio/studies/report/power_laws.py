"""Power laws of a value over an argument, fitted to the logarithms of all rows."""

from collections.abc import Sequence
from dataclasses import dataclass

from bfio.studies.report.selection import number_of
from bfio.studies.report.statistics import Estimate, PowerLaw, as_number, power_law
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


def fitted(rows: Sequence[Row], x: str, y: str) -> Fit:
    """Fit the value ``y`` of rows over their argument ``x``."""
    used: list[Row] = []
    refused: list[Row] = []
    points = []
    for row in rows:
        across, up = as_number(row.task.arguments.get(x)), number_of(row, y)
        if across is None or up is None or min(across, up) <= 0:
            refused.append(row)
        else:
            used.append(row)
            points.append((across, up))
    return Fit(power_law(*zip(*points, strict=True)) if points else None, used, refused)
