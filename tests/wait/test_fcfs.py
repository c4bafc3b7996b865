"""First come, first served by hand: priority under limits, and the effect of an eviction."""

from bfio.wait.fcfs import Favour, FirstComeFirstServed
from bfio.wait.policy import StageInstance
from bfio.wait.simulation import serve
from tests.wait.cases import instance


def _served(policy: FirstComeFirstServed, data: StageInstance) -> list[list[int]]:
    """Return the requests of each batch."""
    run = serve(data, policy)
    events = run.log.events()
    return [events.request[events.batch == k].tolist() for k in range(len(run.batches))]


def test_whom_a_limit_favours() -> None:
    """Two of three at a time. New first: 0 and 1 start, then 2 with 0; 1 pauses meanwhile."""
    data = instance(99, [(0, 1, 1)] * 3)
    assert _served(FirstComeFirstServed(Favour.NEW, limit=2), data) == [[0, 1], [0, 2], [1, 2]]
    assert _served(FirstComeFirstServed(Favour.ONGOING, limit=2), data) == [
        [0, 1],
        [0, 1],
        [2],
        [2],
    ]
    apart = FirstComeFirstServed(Favour.NEW, limit=2, mixed=False)
    assert _served(apart, data) == [[0, 1], [2], [0, 1], [2]]


def test_a_limit_on_tokens() -> None:
    """Four tokens a batch: prompts of 3 one by one, though a batch has one prompt at least."""
    data = instance(99, [(0, 3, 0), (0, 3, 0), (0, 9, 0), (0, 1, 0)])
    assert _served(FirstComeFirstServed(token_limit=4), data) == [[0], [1], [2], [3]]
    assert _served(FirstComeFirstServed(token_limit=6), data) == [[0, 1], [2], [3]]


def test_after_an_eviction_new_first_starts_nothing() -> None:
    """Memory 4, outputs 2: both count 1 + 1, together 4; then 3 + 3 = 6: the second goes.

    It waits until the first has ended, as 1 + 3 = 4 would fit, but nothing starts at once.
    """
    data = instance(4, [(0, 1, 2), (0, 1, 2)])
    assert _served(FirstComeFirstServed(Favour.NEW), data) == [[0, 1], [0, 1], [0], [1], [1], [1]]
    ongoing = _served(FirstComeFirstServed(Favour.ONGOING), data)
    assert ongoing == [[0, 1], [0, 1], [0, 1], [1], [1]]
