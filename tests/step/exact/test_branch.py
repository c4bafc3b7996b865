"""Branch and price: branching on the worker of a request, and the resulting proof."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.step.exact import solve_exact
from bfio.step.exact.branch import BranchSearch
from bfio.step.exact.columns import PRICE_SCALE
from bfio.step.exact.effort import Effort
from bfio.step.exact.fill import FillProblem, reduce_to_fill
from formulations.errors import InputError
from formulations.step.certificate import Certificate, certified_bound
from formulations.step.problem import StepProblem
from tests.step.exact.cases import instant, smallest_imbalance


def _overloaded() -> StepProblem:
    """Return a step of 24 workers that prices leave open by 3: sizes spread widely."""
    rng = np.random.default_rng(39)
    base = rng.integers(0, 12_000, 24) + 100_000
    capacity = np.bincount(rng.integers(0, 24, 40), minlength=24)
    sizes = rng.lognormal(np.log(800), 1.1, 90).astype(int) + 1
    return instant(capacity.tolist(), base.tolist(), np.minimum(sizes, 32_768).tolist())


@st.composite
def _crowded_steps(draw: st.DrawFn) -> StepProblem:
    """Two or three workers of one to three slots, more requests than slots, some of one size."""
    capacity = draw(st.sampled_from(([1, 1], [2, 1], [1, 2], [2, 2], [1, 1, 1], [3, 1], [2, 0])))
    most = draw(st.sampled_from((6, 40)))
    N = sum(capacity) + draw(st.integers(1, 2))
    sizes = draw(st.lists(st.integers(0, most), min_size=N, max_size=N))
    base = draw(st.lists(st.integers(0, most), min_size=len(capacity), max_size=len(capacity)))
    return instant(capacity, base, sizes)


def _searched(problem: StepProblem, best: int) -> tuple[FillProblem, BranchSearch]:
    """Search for what beats a value, knowing closed forms only."""
    core = reduce_to_fill(problem)
    assert core is not None
    first = core.first_peak()
    peaks = range(first, core.last_open_peak(best) + 1)
    bounds = np.array([core.closed_form(peak) for peak in peaks])
    width = int(core.capacity.max())
    nothing = np.empty((0, width), dtype=np.int64), np.empty(0, dtype=np.int64)
    search = BranchSearch(core, first, bounds, best, nothing, Effort())
    assert search.run(10_000)
    return core, search


def _claim(search: BranchSearch, bound: int) -> Certificate:
    prices = tuple(tuple(vector.tolist()) for vector in search.prices)
    return Certificate("branches", bound, prices, PRICE_SCALE, cases=tuple(search.cases))


@given(_crowded_steps(), st.integers(0, 20))
def test_cases_find_the_optimum_and_prove_it(problem: StepProblem, above: int) -> None:
    """Whatever is in hand: what is found is optimal, or nothing beats it; no more is proven."""
    optimum = smallest_imbalance(problem)
    core, search = _searched(problem, optimum + above)
    assert search.best == optimum
    assert (search.owner is None) == (above == 0)
    if search.owner is not None:
        assert core.value_of(search.owner) == optimum
        assert np.bincount(search.owner + 1, minlength=2)[1:].sum() == core.capacity.sum()
    assert certified_bound(problem, _claim(search, optimum)) == optimum
    with pytest.raises(InputError):
        certified_bound(problem, _claim(search, optimum + 1))


def test_what_prices_leave_open_is_closed() -> None:
    """By cases, and by nothing else; the certificate proves that bound and none above it."""
    problem = _overloaded()
    found = solve_exact(problem, fallback=None)
    assert found.proven
    assert found.certificate is not None
    assert found.certificate.kind == "branches"
    assert certified_bound(problem, found.certificate) == found.objective
    with pytest.raises(InputError):
        certified_bound(problem, replace(found.certificate, bound=found.certificate.bound + 1))
    assert not solve_exact(problem, fallback=None, skip=["branches"]).proven


@pytest.mark.parametrize(
    "forge",
    [
        lambda c: replace(c, cases=c.cases[:-1]),
        lambda c: replace(c, cases=(*c.cases, (0, -1, 0, 0))),
        lambda c: replace(c, cases=((-1, *c.cases[0][1:]), *c.cases[1:])),
        lambda c: replace(c, cases=((c.cases[0][0], 99, *c.cases[0][2:]), *c.cases[1:])),
        lambda c: replace(c, cases=((*c.cases[0][:2], 10**6, 0), *c.cases[1:])),
        lambda c: replace(c, cases=((len(c.prices), -1, 0, 0),)),
        lambda c: replace(c, cases=()),
        lambda c: replace(c, prices=c.prices[:-1]),
        lambda c: replace(c, prices=(*c.prices, c.prices[-1])),
        lambda c: replace(c, prices=c.prices[:1] * len(c.prices)),
        lambda c: replace(c, kind="sums"),
    ],
)
def test_forged_cases_are_refused(forge: object) -> None:
    """Cases that are no tree, that lack prices, or whose prices prove less."""
    problem = _overloaded()
    certificate = solve_exact(problem, fallback=None).certificate
    assert callable(forge)
    with pytest.raises(InputError):
        certified_bound(problem, forge(certificate))
