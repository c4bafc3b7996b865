"""The program that holds Algorithm 1 and the optimum: the same answers as enumeration."""

import pytest

from bfio.worst_cases.barrier import BarrierSpace, BarrierTarget
from bfio.worst_cases.bilevel import bilevel
from bfio.worst_cases.cache import CacheSpace, CacheTarget
from bfio.worst_cases.search import exhaustive, worst_case
from formulations.errors import InputError
from formulations.hindsight_latency import Convention
from tests.pairs import pairs

ALGORITHM = CacheTarget("semi-online")


@pytest.mark.parametrize(
    ("sizes", "convention"), pairs(("3 4 1", "4 5 1", "3 5 2"), [*Convention], each=1)
)
def test_agreement_with_enumeration(sizes: str, convention: str) -> None:
    """Two proofs that share nothing but the checker, by requests, memory and prompt."""
    requests, memory, prompt = map(int, sizes.split())
    space = CacheSpace(requests, memory, prompt=prompt, convention=Convention(convention))
    found = bilevel(ALGORITHM, space)
    assert found.is_maximal
    assert found.case.ratio == exhaustive(ALGORITHM, space).case.ratio
    assert found.case.violations() == {}


@pytest.mark.deep
def test_agreement_on_five_requests() -> None:
    """The anchor 8/7 of five requests, proven by both."""
    space = CacheSpace(5, 6, convention=Convention.CLOSED)
    found = bilevel(ALGORITHM, space)
    assert found.is_maximal
    assert found.case.ratio == exhaustive(ALGORITHM, space).case.ratio


def test_without_time_nothing_is_proven() -> None:
    """What is in hand is an instance of ratio 1, and no more is said."""
    found = bilevel(ALGORITHM, CacheSpace(4, 6), time_limit=0)
    assert not found.is_maximal
    assert found.case.violations() == {}


@pytest.mark.parametrize(
    ("target", "space", "message"),
    [
        (CacheTarget("mc-sf"), CacheSpace(3, 5, last_arrival=1), "all requests at 0"),
        (CacheTarget("mc-benchmark"), CacheSpace(3, 5), "shortest first"),
        (BarrierTarget("fcfs"), BarrierSpace(3), "one worker with a KV cache only"),
    ],
)
def test_what_the_program_does_not_describe(
    target: CacheTarget | BarrierTarget, space: CacheSpace | BarrierSpace, message: str
) -> None:
    """Is refused in one line."""
    with pytest.raises(InputError, match=message):
        worst_case(target, space, "bilevel")
