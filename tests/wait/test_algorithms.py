"""The policies against the corrected pseudo-code, and the worked example of figure 6."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bfio.wait.chains import nested_policy
from bfio.wait.policy import StageInstance
from bfio.wait.run import StageRun, StageVerdict
from bfio.wait.simulation import serve
from tests.wait.algorithms import AlgorithmOne, AlgorithmTwo, Batch, batches_of
from tests.wait.cases import chains, instance, instances, wait_policies

engines = st.sampled_from(["reference", "compiled"])


def batches_in(run: StageRun) -> list[Batch]:
    """Return the batches of a run as the pseudo-code's are written."""
    events = run.log.events()
    members: list[set[tuple[int, int]]] = [set() for _ in range(len(run.batches))]
    for batch, i, stage in zip(events.batch, events.request, events.stage, strict=True):
        members[batch].add((int(i), int(stage)))
    starts = run.batches.start.tolist()
    return [(start, frozenset(m)) for start, m in zip(starts, members, strict=True)]


@given(st.data())
def test_wait_is_algorithm_1(data: st.DataObject) -> None:
    """The same requests in the same batches at the same times."""
    drawn: StageInstance = data.draw(instances())
    policy = data.draw(wait_policies(drawn))
    assert policy.kinds is not None
    thresholds = {kind: policy.chains[c].thresholds[0] for kind, c in policy.kinds.items()}
    run = serve(drawn, policy, drain=False, engine=data.draw(engines))
    assert batches_in(run) == batches_of(drawn, AlgorithmOne(drawn, thresholds))


@given(st.data())
def test_nested_wait_is_algorithm_2(data: st.DataObject) -> None:
    """The same, wherever segments end."""
    drawn: StageInstance = data.draw(instances())
    chain = data.draw(chains(int(drawn.output.max(initial=0))))
    policy = nested_policy(chain.ends, chain.thresholds)
    run = serve(drawn, policy, drain=False, engine=data.draw(engines))
    assert batches_in(run) == batches_of(drawn, AlgorithmTwo(drawn, chain.ends, chain.thresholds))


def test_the_pseudo_code_by_hand() -> None:
    """Two of three start at 4, when the second has come, for 1 + 2·2 = 5; the third waits.

    From 9 on nobody else comes: one waits for stage 0, two for stage 1, and nothing happens.
    """
    data = instance(9, [(0, 2, 1), (4, 2, 1), (5, 2, 1)], fixed=1, per_token=1)
    expected = [(4, frozenset({(0, 0), (1, 0)}))]
    assert batches_of(data, AlgorithmOne(data, {(2, 1): 2})) == expected
    assert batches_of(data, AlgorithmTwo(data, [1], [2])) == expected
    assert serve(data, nested_policy([1], [2]), drain=False).verdict is StageVerdict.STUCK


def test_figure_6() -> None:
    """Thresholds (3, 3), one stage per segment, batches that take next to no time.

    Its last row is corrected: at 14 segment 1 serves P7, P8 and P9, segment 2 P3, P5 and P6, all
    of which complete. (Printed: P6 stays behind.) P10 waits for stage 0, P7 and P8 for stage 1.
    """
    names = [f"P{number}" for number in range(1, 11)]
    times = (0, 0, 1, 5, 5, 7, 7, 11, 14, 14)
    short = {"P1", "P2", "P4", "P9"}
    requests = [
        (1000 * time, 1, 0 if name in short else 1)
        for name, time in zip(names, times, strict=True)
    ]
    run = serve(instance(99, requests), nested_policy([0, 1], [3, 3]), drain=False)
    first = [(1000, "P1 P2 P3", ""), (7000, "P4 P5 P6", ""), (14000, "P7 P8 P9", "P3 P5 P6")]
    assert batches_in(run) == [
        (
            time,
            frozenset(
                (names.index(name), stage)
                for stage, members in enumerate(both)
                for name in members.split()
            ),
        )
        for time, *both in first
    ]
    done = {name for name, clock in zip(names, run.completion, strict=True) if clock >= 0}
    assert done == {"P1", "P2", "P3", "P4", "P5", "P6", "P9"}
    assert np.flatnonzero(run.prefilled < 0).tolist() == [9]
