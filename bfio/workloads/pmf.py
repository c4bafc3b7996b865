"""Published histograms of lengths (``tokens,probability``), as `Empirical` laws."""

from pathlib import Path

from bfio.workloads.cells import bad_cell, token_count
from bfio.workloads.decimals import parse_decimal
from bfio.workloads.lengths import Empirical
from bfio.workloads.tables import open_table
from bfio.workloads.trace_format import Row
from formulations.errors import InputError

_COLUMNS = ("tokens", "probability")


def read_pmf(path: str | Path) -> Empirical:
    """Read a CSV with the columns ``tokens,probability``, plain or gzip.

    Raises
    ------
    InputError
        If the file cannot be read, a row is bad, a value repeats, or the probabilities do not
        sum to 1 within rounding.
    """
    path = Path(path)
    values: list[int] = []
    probabilities: list[float] = []
    with open_table(path) as table:
        if set(table.header) != set(_COLUMNS):
            raise InputError(
                f"{path} line 1",
                f"expected the columns {','.join(_COLUMNS)}",
                "give a file of length probabilities",
            )
        for line, row in table.records:
            try:
                value, probability = _entry(row)
            except InputError as error:
                where = f"{path} line {line} {error.where}".rstrip()
                raise InputError(where, error.what, "correct the row") from None
            values.append(value)
            probabilities.append(probability)
    try:
        return Empirical(values, probabilities)
    except InputError as error:
        raise InputError(f"{path} {error.where}", error.what, error.remedy) from None


def _entry(row: Row | InputError) -> tuple[int, float]:
    if isinstance(row, InputError):
        raise row
    probability = parse_decimal(str(row["probability"]).strip(), "column 'probability'")
    if not 0 <= probability <= 1:
        raise bad_cell("probability", f"{float(probability):g} is no probability")
    return token_count(row, "tokens"), float(probability)
