"""Histogram files are read as laws; damaged ones are refused."""

import gzip
from pathlib import Path

import pytest

from bfio.workloads import read_pmf
from formulations.errors import InputError


def _file(folder: Path, content: bytes) -> Path:
    path = folder / "pmf.csv.gz"
    path.write_bytes(content)
    return path


def test_read(tmp_path: Path) -> None:
    """Probabilities in scientific notation, rounded so that they sum to 0.99999."""
    content = b"tokens,probability\n9,2.5e-01\n4,7.4999e-01\n"
    law = read_pmf(_file(tmp_path, gzip.compress(content)))
    assert law.values.tolist() == [9, 4]
    assert law.probabilities.sum() == pytest.approx(1.0, abs=1e-12)
    assert law.mean == pytest.approx(5.25, abs=1e-4)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"tokens,weight\n1,1\n", "line 1: expected the columns tokens,probability"),
        (b"tokens,probability\n0,1\n", r"values\[0\]: 0 is out of range"),
        (b"tokens,probability\n1,0.5\n1,0.5\n", "values: a value occurs twice"),
        (b"tokens,probability\n1,0.5\n2,0.4\n", "probabilities: the sum is 0.9"),
        (b"tokens,probability\n1,1.5\n", "line 2 column 'probability': 1.5 is not a probability"),
        (b"tokens,probability\n1,nan\n", "line 2 column 'probability': 'nan' is not a finite"),
        (b"tokens,probability\n1.5,1\n", "line 2 column 'tokens': '1.5' is not a whole number"),
        (b"tokens,probability\n1\n", "line 2: has 1 cells for 2 columns"),
        (b"tokens,probability\n", "values: the distribution has no values"),
        (b"", "is empty"),
    ],
)
def test_damaged(tmp_path: Path, content: bytes, message: str) -> None:
    """What is wrong is told with file and line."""
    path = _file(tmp_path, content)
    with pytest.raises(InputError, match=message) as caught:
        read_pmf(path)
    assert caught.value.where.startswith(str(path))
