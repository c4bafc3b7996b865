"""Machine code reads the same fields through a pointer to a named tuple as Python."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.common.compilable import compilable
from bfio.common.kernels import entry_point
from bfio.common.reference_type import Pointer, checked
from formulations.errors import InputError
from tests.processes import python


class Pair(NamedTuple):
    """Fields of one type, which Numba keeps as an array."""

    first: np.ndarray
    second: np.ndarray


class Flag(NamedTuple):
    """Fields that are shorter than a word."""

    is_set: bool
    is_clear: bool


class Inner(NamedTuple):
    """Fields of several types, tuples among them."""

    is_on: bool
    flag: Flag
    pair: Pair
    factor: float
    generator: np.random.Generator
    table: np.ndarray


class Outer(NamedTuple):
    """A tuple of tuples."""

    rounds: int
    inner: Inner
    flags: np.ndarray


@compilable
def add_up(inner: Inner, rounds: int) -> float:
    """Sum what changes while it is read."""
    total = 0.0
    for k in range(rounds):
        for i in range(len(inner.pair.first)):
            inner.pair.second[i] += inner.pair.first[i] + k
            total += inner.factor * inner.pair.second[i] + inner.table[i % len(inner.table), 0]
    return total


@compilable(allocates=True)
def work(outer: Outer) -> tuple[float, int]:
    """Read fields of all kinds, make an array of one, and write to another."""
    doubled = 2 * outer.inner.pair.first
    outer.flags[0] = outer.inner.is_on
    outer.flags[1] = outer.inner.flag.is_set and not outer.inner.flag.is_clear
    total = add_up(outer.inner, outer.rounds) + outer.inner.generator.random()
    return total + doubled.sum(), len(outer.flags) if outer.inner.is_on else -1


compiled = entry_point(work, by_reference=True)


def outer_of(values: list[int], count: int, factor: float, is_on: bool) -> Outer:
    """Return a tuple of tuples."""
    first = np.array(values, dtype=np.int64)
    inner = Inner(
        is_on,
        Flag(not is_on, is_on),
        Pair(first, 3 * first),
        factor,
        np.random.default_rng(count),
        np.arange(6.0).reshape(3, 2),
    )
    return Outer(count, inner, np.zeros(2, dtype=np.bool_))


@given(
    st.lists(st.integers(-(10**6), 10**6), max_size=8),
    st.integers(0, 5),
    st.floats(-8, 8),
    st.booleans(),
)
def test_compiled_and_interpreted_read_and_write_alike(
    values: list[int], count: int, factor: float, is_on: bool
) -> None:
    """Nested tuples, of one type or several, numbers among the fields, arrays written to."""
    slow, fast = (outer_of(values, count, factor, is_on) for _ in range(2))
    assert work(slow) == compiled(fast)
    assert slow.inner.pair.second.tolist() == fast.inner.pair.second.tolist()
    assert slow.flags.tolist() == fast.flags.tolist()


def test_two_tuples_of_other_types_are_told_apart() -> None:
    """Pointers to tuples of the same class whose arrays hold other numbers are other types."""

    def floats_of() -> Outer:
        outer = outer_of([1, 2], 2, 0.5, True)
        pair = Pair(np.array([1.5, 2.5]), np.array([0.0, 0.0]))
        return outer._replace(inner=outer.inner._replace(pair=pair))

    assert compiled(floats_of()) == work(floats_of())
    assert compiled(outer_of([1, 2], 2, 0.5, True)) == work(outer_of([1, 2], 2, 0.5, True))


def test_another_layout_is_refused() -> None:
    """A later version of Numba may store tuples in another way."""
    kind = Pointer(outer_of([1], 1, 1.0, False))._numba_type_
    with pytest.raises(NotImplementedError, match="another layout"):
        checked(kind, "0qq0q")


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ("many", "str"),
        (np.int32(1), "int32"),
        (2**63, "Outer with numbers of such size or kind"),
        (np.ma.array([1.0], mask=[True]), "MaskedArray"),
        (np.zeros(1, dtype=">i4"), "Outer with numbers of such size or kind"),
        (np.zeros(1, dtype=np.float16), "Outer with numbers of such size or kind"),
        (np.array([None]), "ndarray"),
    ],
)
def test_other_fields_are_refused(value: object, what: str) -> None:
    """Machine code has no layout for them, or would read other values."""
    outer: Any = outer_of([1], 1, 1.0, False)
    with pytest.raises(InputError, match=f"kernel: {what} cannot be passed to machine code; use"):
        compiled(outer._replace(rounds=value))


_UNCOMPILED = """
import numpy as np
from bfio import Cluster, Workload, simulate
workload = Workload(np.arange(1, 31), np.arange(30, 0, -1))
runs = [simulate(workload, "br-0", Cluster(2, 3), engine=e) for e in ("compiled", "reference")]
print(*(str(run.engine) for run in runs), (runs[0].worker == runs[1].worker).all())
"""


def test_a_compiled_loop_runs_as_python_where_numba_is_told_so() -> None:
    """``NUMBA_DISABLE_JIT``: for a debugger."""
    done = python("-c", _UNCOMPILED, env={"NUMBA_DISABLE_JIT": "1"}, check=False)
    assert done.stdout == "compiled reference True\n", done.stderr
