"""Off-Couple, the algorithm of the regret proof."""

from hypothesis import given
from hypothesis import strategies as st

from bfio.kvcache.simulation import serve
from bfio.testing.instances import latency_problem, latency_problems
from formulations.hindsight_latency import Convention, LatencyProblem, total_latency, violations
from proofs_checks.papers.kv.coupling import off_couple

#: A, one request at a time (2·5 > 9): P3 (o = 3) waits, P4 (o = 1) comes at 1, P5 (o = 4) at 5.
FIGURE_4 = latency_problem(9, [(0, 5, 3), (1, 5, 1), (5, 5, 4)], Convention.CLOSED)


def test_figure_4_is_a_tie() -> None:
    """Off-Couple runs P3 from 0 to 3 and P4 from 4 to 5; offline P4 from 1 to 2, P3 from 3 to 6.

    Both complete at a sum of 8, and from 7 on both are in the same state: waiting gains nothing.
    """
    offline = [3, 1, 7]
    coupling = off_couple(FIGURE_4, [0, 4, 9], offline, 0)
    assert coupling.starts == (0, 4, 7)
    assert coupling.copies_from == 6
    assert violations(FIGURE_4, coupling.starts) == {}
    assert total_latency(FIGURE_4, coupling.starts) == total_latency(FIGURE_4, offline)


@given(
    latency_problems(common_prompt=True, max_requests=8, max_memory=24, max_output=24),
    st.integers(0, 20),
)
def test_it_follows_an_offline_schedule_that_is_algorithm_2(
    data: LatencyProblem, now: int
) -> None:
    """If the optimum does what Algorithm 2 does, so does Off-Couple."""
    starts = serve(data, "mc-sf").start.tolist()
    assert list(off_couple(data, starts, starts, now).starts) == starts


def test_it_starts_what_the_offline_schedule_has_started() -> None:
    """C, M = 6: at 0 Algorithm 2 starts o = 1 twice, offline only once; the rest is copied."""
    data = latency_problem(6, [(0, 2, 1), (0, 2, 1), (0, 2, 3)])
    coupling = off_couple(data, [0, 0, 9], [0, 1, 2], 0)
    assert coupling.starts == (0, 0, 2)
    assert coupling.copies_from == 2
