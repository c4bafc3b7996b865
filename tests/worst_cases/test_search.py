"""The entry point of the searches: refused input."""

from collections.abc import Callable
from typing import Any

import pytest

from bfio.worst_cases.barrier import BarrierSpace, BarrierTarget, Criterion, Known
from bfio.worst_cases.bilevel import bilevel
from bfio.worst_cases.cache import CacheSpace, CacheTarget
from bfio.worst_cases.search import exhaustive, worst_case
from formulations.errors import InputError
from formulations.hindsight_latency import Convention
from tests.pairs import pairs

ANY: Any = None
CACHE, FCFS = CacheTarget("mc-sf"), BarrierTarget("fcfs")
STEPS = BarrierSpace(3, criterion=Criterion.STEPS)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: CacheSpace(0, 5), "requests: 0"),
        (lambda: CacheSpace(3, 1), "fits no memory"),
        (lambda: CacheSpace(3, 5, least_memory=6), "fits no memory"),
        (lambda: CacheSpace(3, 5, convention=ANY), "convention"),
        (lambda: BarrierSpace(3, workers=0), "workers: 0"),
        (lambda: BarrierSpace(3, criterion=ANY), "criterion"),
        (lambda: BarrierTarget("fcfs", known=ANY), "known"),
        (lambda: CacheTarget("nobody"), "nobody"),
        (lambda: BarrierTarget("nobody"), "nobody"),
        (lambda: worst_case(CACHE, BarrierSpace(3)), "does not belong to this system"),
        (lambda: worst_case(CACHE, CacheSpace(3, 5), "best"), "method"),
        (lambda: worst_case(CACHE, CacheSpace(40, 40)), "instances"),
        (lambda: worst_case(FCFS, BarrierSpace(40)), "instances"),
        (lambda: worst_case(FCFS, BarrierSpace(9_999)), r"about 10\^9541 instances"),
        (lambda: BarrierTarget("random"), "is random, so its worst case depends on the seed"),
        (lambda: CacheTarget("beta-clearing:beta=0.5"), "is random, so its worst case depends"),
        (lambda: BarrierTarget("pausing"), "pauses requests"),
        (lambda: BarrierTarget("fcfs", Known.ALL), "fcfs does not look ahead"),
        (lambda: BarrierTarget("bf-io", Known.ACTIVE), "bf-io does not look ahead"),
        (lambda: worst_case(FCFS, BarrierSpace(2), steps=9), "method exhaustive does not use it"),
        (
            lambda: worst_case(FCFS, BarrierSpace(2), time_limit=1.0),
            "time_limit: method exhaustive does not use it",
        ),
        (
            lambda: worst_case(CacheTarget("semi-online"), CacheSpace(3, 5, last_arrival=1)),
            "knows all requests at 0",
        ),
        (lambda: worst_case(CACHE, CacheSpace(3, 5), "adversary"), "does not support this system"),
        (lambda: worst_case(FCFS, BarrierSpace(3), "steady"), "does not support this system"),
        (lambda: worst_case(FCFS, STEPS, "adversary"), "use peaks"),
        (lambda: worst_case(FCFS, BarrierSpace(1, 9, 9, output=900), "adversary"), "requests"),
        (lambda: worst_case(CACHE, CacheSpace(3, 5), "steady"), "longest"),
        (
            lambda: worst_case(CACHE, CacheSpace(3, 9, longest=8), "steady"),
            "cannot start in every round",
        ),
    ],
)
def test_what_is_refused(call: Callable[[], object], message: str) -> None:
    """In one line, with a remedy."""
    with pytest.raises(InputError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


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
