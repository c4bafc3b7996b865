"""The exact one-step drift of ``f(X) = Σ(P + D) + R b/t_b`` (section 2.3), of the engine itself.

All possible arrivals of a slot are enumerated with their probabilities; ``f`` is computed from the
log.
"""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.batching.laws import ListedArrivals, ListedSizes
from bfio.batching.policy import BatchPolicy
from bfio.batching.registry import build
from bfio.batching.scenario import Scenario, Serving
from bfio.batching.simulation import simulate
from bfio.batching.tallies import BatchLog
from formulations.batching import BatchTime, single_engine
from tests.batching.cases import policies

#: Prompt and decode tokens.
Size = tuple[int, int]
sizes = st.tuples(st.integers(1, 6), st.integers(1, 6))
times = st.builds(
    lambda c, a, b0: BatchTime(Fraction(c), Fraction(a), b0),
    st.integers(1, 4),
    st.integers(0, 2),
    st.integers(0, 4),
)


class Slot:
    """One engine up to a slot, and what may arrive in it.

    Parameters
    ----------
    budget, time
        ``b`` and the batch times.
    earlier : list of (int, Size)
        Requests that arrive before, and when.
    now : int
        The slot, n.
    """

    def __init__(
        self, budget: int, time: BatchTime, earlier: list[tuple[int, Size]], now: int
    ) -> None:
        self.budget, self.time, self.now = budget, time, now
        self.earlier = sorted(earlier, key=lambda entry: entry[0])
        self.full_rate = time.rate(budget)

    def log(self, policy: BatchPolicy, arrived: list[Size]) -> BatchLog:
        """Return the log of a run in which these requests arrive in the slot."""
        requests = [*self.earlier, *((self.now, size) for size in arrived)]
        # Without arrivals a run has none to list: one long after the end.
        requests = requests or [(self.now + 10, (1, 1))]
        prefill, decode = (np.array([size[k] for _, size in requests]) for k in (0, 1))
        name = "1@engine"
        network = single_engine(1, 1, 1, budget=self.budget, batch_time=self.time)
        scenario = Scenario(
            network,
            Serving(policy, "any"),
            listed_sizes={name: ListedSizes(prefill, decode, in_order=True)},
            listed_arrivals={name: ListedArrivals(np.array([slot for slot, _ in requests]))},
        )
        run = simulate(scenario, horizon=self.now + 2, engine="reference", keeps_log=True)
        assert run.log is not None
        return run.log

    def worth(self, log: BatchLog, slot: int) -> Fraction:
        """Return ``f(X)`` of the state in which the engine decides in a slot."""
        come = log.tasks[:, 4] <= slot
        loaded = log.batches[:, 1] < slot
        tokens = int(log.tasks[come, 5:7].sum()) - int(log.batches[loaded, 3].sum())
        return tokens + self.remaining(log, slot) * self.full_rate

    def remaining(self, log: BatchLog, slot: int) -> int:
        """Return ``R``: slots that a batch loaded before still takes."""
        ends = log.batches[log.batches[:, 1] < slot]
        return int((ends[:, 1] + ends[:, 2] - slot).max(initial=0))

    def batch(self, log: BatchLog) -> int:
        """Return ``b'``, the tokens loaded in the slot."""
        return int(log.batches[log.batches[:, 1] == self.now, 3].sum())


def derived(slot: Slot, log: BatchLog, offered: Fraction) -> Fraction:
    """Return the drift that follows from the definitions, case by case."""
    if slot.remaining(log, slot.now) > 0:
        return offered - slot.full_rate
    tokens = slot.batch(log)
    if tokens == 0:
        return offered
    return offered - tokens + (slot.time.slots(tokens) - 1) * slot.full_rate


def drift(slot: Slot, policy: BatchPolicy, law: dict[Size | None, Fraction]) -> Fraction:
    """Return ``E[f(X(n+1)) | X(n)] − f(X(n))``, over no request or one of each size."""
    total = Fraction(0)
    for size, chance in law.items():
        log = slot.log(policy, [] if size is None else [size])
        total += chance * (slot.worth(log, slot.now + 1) - slot.worth(log, slot.now))
    return total


def _law(kinds: list[Size], weights: list[int]) -> dict[Size | None, Fraction]:
    """Return a law of what arrives: nothing has the first weight."""
    law: dict[Size | None, Fraction] = {None: Fraction(weights[0], sum(weights))}
    for size, weight in zip(kinds, weights[1:], strict=True):
        law[size] = law.get(size, Fraction(0)) + Fraction(weight, sum(weights))
    return law


def _offered(law: dict[Size | None, Fraction]) -> Fraction:
    return sum((chance * sum(size or ()) for size, chance in law.items()), Fraction(0))


@given(
    budget=st.integers(1, 9),
    time=times,
    earlier=st.lists(st.tuples(st.integers(0, 8), sizes), max_size=6),
    now=st.integers(9, 20),
    policy=policies(),
    kinds=st.lists(sizes, min_size=1, max_size=3),
    weights=st.lists(st.integers(1, 9), min_size=4, max_size=4),
)
def test_the_drift_is_the_derived_one(
    budget: int,
    time: BatchTime,
    earlier: list[tuple[int, Size]],
    now: int,
    policy: BatchPolicy,
    kinds: list[Size],
    weights: list[int],
) -> None:
    """Under any policy and batch times, in any state that is reached."""
    slot, law = Slot(budget, time, earlier, now), _law(kinds, weights[: len(kinds) + 1])
    expected = derived(slot, slot.log(policy, []), _offered(law))
    assert drift(slot, policy, law) == expected


def _hand(
    earlier: list[tuple[int, Size]], now: int, policy: str = "sarathi"
) -> tuple[Slot, Callable[[], Fraction]]:
    """Four tokens in three slots, a request of two tokens in every fourth slot."""
    slot = Slot(4, BatchTime(Fraction(2), Fraction(1), 3), earlier, now)
    law: dict[Size | None, Fraction] = {None: Fraction(3, 4), (1, 1): Fraction(1, 4)}
    return slot, lambda: drift(slot, build(policy), law)


@pytest.mark.parametrize(
    ("earlier", "now", "value"),
    [
        # Nobody is there: what arrives, 1/4 · 2.
        ([], 5, Fraction(1, 2)),
        # A full batch, b/t_b = 4/3, and the slots after it.
        ([(0, (4, 1))], 1, Fraction(1, 2) - Fraction(4, 3)),
        ([(0, (4, 1))], 2, Fraction(1, 2) - Fraction(4, 3)),
        ([(0, (4, 1))], 3, Fraction(1, 2) - Fraction(4, 3)),
        # Its decode token alone: two slots for one token, −1 + 4/3 upwards.
        ([(0, (4, 1))], 4, Fraction(1, 2) - 1 + Fraction(4, 3)),
    ],
)
def test_by_hand(earlier: list[tuple[int, Size]], now: int, value: Fraction) -> None:
    """Idle, full, running, and short batches, whose drift may point upwards."""
    _, found = _hand(earlier, now)
    assert found() == value


@given(earlier=st.lists(st.tuples(st.integers(0, 8), sizes), max_size=9), now=st.integers(9, 15))
def test_it_is_negative_outside_the_set_of_the_sketch(
    earlier: list[tuple[int, Size]], now: int
) -> None:
    """Below the capacity, while a batch runs or b tokens are eligible (work-conserving)."""
    slot, found = _hand(earlier, now)
    log = slot.log(build("sarathi"), [])
    if slot.remaining(log, now) > 0 or slot.batch(log) == slot.budget:
        assert found() == Fraction(1, 2) - Fraction(4, 3) < 0
