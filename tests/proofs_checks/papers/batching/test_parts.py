"""The model behind the claims against the engine; saturation, fluid paths, verifiers by hand."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.batching.policy import BatchState, ask
from bfio.batching.registry import build
from formulations.batching import BatchTime
from proofs_checks.papers.batching.fluid import completed, verify_2b, verify_c8, verify_c19
from proofs_checks.papers.batching.model import (
    ONE_SLOT,
    Engine,
    Policy,
    Queue,
    State,
    as_data,
    faster_transformer,
    from_data,
    orca,
    sarathi,
    saturation,
    vllm,
)
from proofs_checks.papers.batching.networks import (
    RybkoStolyar,
    always_first,
    drifts,
    peaks,
    uniform,
    verify_fewest,
)
from proofs_checks.papers.batching.theorem1 import linear, reachable, verify_1b, verify_b1

queues = st.lists(st.tuples(st.integers(0, 6), st.integers(1, 4)), max_size=6).map(tuple)
HALF = Fraction(1, 2)
#: A request of (1, 1) in every second slot, b = 1.
CRITICAL = Engine(1, ONE_SLOT, ((0, HALF), (1, HALF)), (((1, 1), Fraction(1)),))


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        ("sarathi", sarathi),
        ("orca", orca),
        ("vllm", vllm),
        ("faster-transformer", faster_transformer),
    ],
)
@given(queue=queues, budget=st.integers(1, 12))
def test_policies_are_those_of_the_engine(
    name: str, policy: Policy, queue: Queue, budget: int
) -> None:
    """Written twice, from the same text: both load the same tokens."""
    n = len(queue)
    prefill = [p for p, _ in queue]
    entered = [-1 if p else i for i, p in enumerate(prefill)]
    state = BatchState(0, budget, True, prefill, ["s"] * n, [0] * n, entered, None)
    assert [x + y for x, y in policy(queue, budget)] == ask(build(name), state, name)


def test_a_slot_by_hand() -> None:
    """B = 4, t(4) = 3: a chunk of two prompt tokens beside two decode tokens; one departs."""
    time = BatchTime(Fraction(1), Fraction(1), 2)
    engine = Engine(4, time, ((0, Fraction(1)),), (((1, 1), Fraction(1)),))
    state = State(0, ((0, 1), (3, 2), (0, 5)))
    batch = sarathi(state.queue, 4)
    assert batch == [(0, 1), (2, 0), (0, 1)]
    after = engine.step(state, batch, ((1, 1),))
    assert after == State(2, ((1, 2), (0, 4), (1, 1)))
    assert engine.step(after, [], ()) == State(1, after.queue)


def test_the_drift_by_hand() -> None:
    """Every second slot brings two tokens, a full batch takes one: 1 − 1 = 0."""
    assert CRITICAL.load == 1
    assert CRITICAL.drift(linear(CRITICAL), State(0, ((0, 3),)), sarathi) == 0
    assert CRITICAL.drift(linear(CRITICAL), State(0, ()), sarathi) == 1


def test_data_hold_an_engine() -> None:
    """Written and read back; what is none is refused."""
    state = State(1, ((2, 3),))
    data = as_data(CRITICAL, state)
    assert from_data(data) == (CRITICAL, state)
    with pytest.raises(ValueError, match="no engine"):
        from_data(data | {"budget": 0})


def test_saturation_by_hand() -> None:
    """FasterTransformer: 1/11 with v = (10, 10); two of (1, 2) in 1 + 2 slots with b = 2."""
    assert saturation(faster_transformer, (10, 10), 10, ONE_SLOT) == Fraction(1, 11)
    assert saturation(faster_transformer, (1, 2), 2, ONE_SLOT) == Fraction(2, 3)


def test_the_instance_of_theorem_1b() -> None:
    """C = 1, a = 1, b0 = 8, b = 16, λ = 9/10, v = (3, 3): few states, and a load of 5.4·9/16."""
    time, sizes = BatchTime(Fraction(1), Fraction(1), 8), (((3, 3), Fraction(1)),)
    counts = ((0, Fraction(1, 10)), (1, Fraction(9, 10)))
    engine = Engine(16, time, counts, sizes)
    assert engine.load == Fraction(54, 10) * Fraction(9, 16)
    assert reachable(engine) is not None
    assert verify_1b(as_data(engine, State(0, ()))) is not None
    # With c = 8 the hypothesis holds, and the queue grows.
    slow = Engine(16, BatchTime(Fraction(8), Fraction(1), 8), counts, sizes)
    assert verify_1b(as_data(slow, State(0, ()))) is None


@pytest.mark.parametrize(("percent", "grows"), [(50, False), (55, False), (56, True), (90, True)])
def test_half_a_cycle_by_hand(percent: int, grows: bool) -> None:
    """A@1 empties after 1/(12 − λ) slots, A@2 after 1/(24/17 − λ); then B@2 has λ times that."""
    rate = Fraction(percent, 100) * 768 / 608
    path = list(peaks(RybkoStolyar(rate), (Fraction(1), Fraction(0), Fraction(0), Fraction(0)), 2))
    growth = rate / (Fraction(24, 17) - rate)
    assert path[-1] == (Fraction(0), Fraction(0), growth, Fraction(0))
    assert (growth > 1) == grows


def test_engines_in_parallel_by_hand() -> None:
    """Two tokens every second slot: to one engine with b = 1, or half of them to each."""
    states = [State(0, ((0, 3),)), State(0, ((0, 3),))]
    assert drifts(CRITICAL, states, always_first) == [0, -1]
    assert drifts(CRITICAL, states, uniform) == [-HALF, -HALF]


def test_verifiers_take_counterexamples_only() -> None:
    """Data near the stored ones, on the other side of each statement."""
    assert completed(BatchTime(Fraction(1), Fraction(1), 1), [1, 2]) == [0, 1, 1, 3]
    # t(1) = 1, t(2) = 2: between slots 2 and 4 a full batch and one of one token are done.
    aligned = {"time": [1, 1, 1], "budget": 2, "loads": [2, 2]}
    assert verify_c8(aligned) is None
    assert verify_c8(aligned | {"loads": [1, 2, 1]}) is not None
    flows = {"rate": 1, "prefill": 2, "decode": 3, "decoded": 3}
    assert verify_c19(flows) is None
    assert verify_c19(flows | {"decoded": 2}) is not None
    # λ = 1, (m_p, m_d) = (2, 2): b/t_b = 3 is less than 4 and more than 2; 1 is less than 2.
    overloaded = {"rate": 10, "prefill": 20, "decode": 20, "capacity": 3}
    assert verify_2b(overloaded) is not None
    assert verify_2b(overloaded | {"capacity": 1}) is None
    engines = {"prefill": 1, "decode": 1, "engines": [[3, 0], [1, 3]]}
    assert verify_fewest(engines) is not None
    assert verify_fewest(engines | {"engines": [[0, 6], [1, 3]]}) is None
    assert verify_b1(as_data(CRITICAL, State(0, ((500, 1),)))) is None
