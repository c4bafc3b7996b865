"""What Numba does early elsewhere is done here when it is asked for, and then it is done."""

from pathlib import Path

import pytest

from tests.processes import python

_KERNELS = """
import numpy as np
from bfio.common.kernels import entry_point

@entry_point
def total(numbers):
    return numbers.sum()

@entry_point
def product(left, right):
    return np.dot(left, right)

@entry_point
def equals(left, right):
    return hash(left) == hash(right)
"""
#: Each kernel as it is used, and whether scipy's linear algebra is loaded by then.
_USE = """
import sys
import numpy as np
import kernels
from numba import njit
def show(value, function):
    hits = sum(function.entry.machine_code.stats.cache_hits.values())
    print(value, hits, "scipy.linalg" in sys.modules)
pair = np.array([3.0, 4.0])
show(kernels.total(pair), kernels.total)
show(kernels.equals("a" * 40, "aa" * 20), kernels.equals)
print(hash("a" * 40) == njit(lambda text: hash(text))("a" * 40))
total = kernels.total.entry.machine_code
print(njit(lambda numbers: 2 * total(numbers))(pair))
show(kernels.product(pair, pair), kernels.product)
"""


@pytest.mark.deep
def test_kernels_from_disk_work_and_load_no_more_than_they_need(tmp_path: Path) -> None:
    """By themselves, called by another kernel, with texts and with linear algebra."""
    (tmp_path / "kernels.py").write_text(_KERNELS, encoding="utf-8")

    def printed() -> list[str]:
        done = python("-c", _USE, cwd=tmp_path, env={"NUMBA_CACHE_DIR": str(tmp_path / "cache")})
        return done.stdout.splitlines()

    first, second = printed(), printed()
    assert first[:4] == ["7.0 0 False", "True 0 False", "True", "14.0"]
    assert second[:4] == ["7.0 1 False", "True 1 False", "True", "14.0"]
    assert first[4].startswith("25.0 0")
    assert second[4].startswith("25.0 1")


_USERS = """
import sys
from bfio.common.kernels import entry_point
from numba import njit

@entry_point
def half(x):
    return x / 2

@njit(cache=True)
def inner(x):
    return x + 1

@njit
def outer(x):
    return 2 * inner(x)

print(half(4.0), eval(sys.argv[1])(1.0))
"""


def test_functions_that_numba_stores_for_users_can_be_called_by_others(tmp_path: Path) -> None:
    """Beside kernels of ours: a stored function is read and included in its caller."""
    script = tmp_path / "users.py"
    script.write_text(_USERS, encoding="utf-8")
    env = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    said = [python(str(script), name, env=env).stdout for name in ("inner", "outer")]
    assert said == ["2.0 2.0\n", "2.0 4.0\n"]
