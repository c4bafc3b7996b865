"""Instances on which common routing rules fail (BF-IO, appendix A.1.1).

Both put all heavy requests on worker 0, so that the slowest worker of every step holds k heavy
requests where an even spread would leave ``ceil(k / G)`` on each. [The paper prints the ratio
``H / ceil(H / G)`` of round-robin as ``>= G``; it is at most G, and G exactly when G divides H.]
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from bfio.workloads.workload import Workload
from formulations.arrays import integer
from formulations.errors import InputError


@dataclass(frozen=True)
class Lengths:
    """Prompt and output length of a kind of request [tokens]."""

    prompt_tokens: int
    output_tokens: int

    def __post_init__(self) -> None:
        """Validate."""
        integer(self.prompt_tokens, "prompt_tokens", minimum=1)
        integer(self.output_tokens, "output_tokens", minimum=1)


def round_robin_bad(
    workers: int,
    heavies: int,
    *,
    heavy: Lengths = Lengths(100_000, 2_000),
    short: Lengths = Lengths(1, 100),
) -> Workload:
    """Return ``heavies`` groups of one heavy request and G - 1 short ones, all at time 0.

    Round-robin from worker 0 sends every heavy request there. With at least H slots per worker
    all are admitted at step 0, and while the heavy ones run the largest load is
    ``H·(s + age)`` against at most ``ceil(H / G)·(s + age)`` plus the short requests for an even
    spread: per-step loads differ by a factor up to ``H / ceil(H / G)``. The factor in step time
    is that of ``C + t_l·load``; it approaches the same number as ``t_l·s`` outgrows C.

    Parameters
    ----------
    workers : int
        ``G >= 2``.
    heavies : int
        ``H >= 1``.
    heavy, short : Lengths
        The two kinds of request.
    """
    _check(workers, heavies)
    kinds = ([heavy] + [short] * (workers - 1)) * heavies
    times = (Fraction(0),) * len(kinds)
    return _workload("round-robin-bad", kinds, times, workers, heavies)


def jsq_bad(
    workers: int,
    heavies: int,
    *,
    heavy: Lengths = Lengths(1_000_000, 1_000),
    short: Lengths = Lengths(1, 1),
    spacing_s: Fraction = Fraction(4),
) -> Workload:
    """Return ``heavies`` rounds that make join-shortest-queue pile up on worker 0.

    Round r = 0, 1, ..., at time ``r·spacing_s``, is a burst of ``r·(G - 1)`` short requests and
    then one heavy one. Worker 0 holds r heavy requests and the short ones of earlier rounds are
    gone, so the burst goes to the other workers until all hold r requests; the tie for the heavy
    request goes to the lowest worker, which is worker 0 again. After k rounds the largest load is
    at least ``k·s`` against ``ceil(k / G)·(s + age)`` plus the short requests for an even spread:
    a ratio of order G when k is a multiple of G.

    It needs arrival times (``--arrivals timed``), at least ``heavies`` slots per worker, ties to
    the lowest worker, and two things of the lengths: short requests end between rounds
    (``spacing_s`` over ``short.output_tokens + 1`` steps) and heavy ones outlive the rounds
    (``heavy.output_tokens`` over the number of steps in ``heavies·spacing_s``). The defaults do
    so for up to 16 heavy requests and the default step time, where a step with one heavy request
    takes 0.1 s and one with 16 takes 1.7 s.

    Parameters
    ----------
    workers : int
        ``G >= 2``.
    heavies : int
        Number of rounds ``k >= 1``.
    heavy, short : Lengths
        The two kinds of request.
    spacing_s : Fraction
        Time between rounds [s].
    """
    _check(workers, heavies)
    if spacing_s <= 0:
        raise InputError("spacing_s", f"{spacing_s} s", "give a time > 0")
    rounds = list(_rounds(workers, heavies, heavy, short))
    kinds = [kind for burst in rounds for kind in burst]
    times = tuple(r * spacing_s for r, burst in enumerate(rounds) for _ in burst)
    return _workload("jsq-bad", kinds, times, workers, heavies)


def _rounds(workers: int, heavies: int, heavy: Lengths, short: Lengths) -> Iterator[list[Lengths]]:
    for r in range(heavies):
        yield [short] * (r * (workers - 1)) + [heavy]


def _workload(
    name: str,
    kinds: list[Lengths],
    times: tuple[Fraction, ...],
    workers: int,
    heavies: int,
) -> Workload:
    return Workload(
        np.array([kind.prompt_tokens for kind in kinds], dtype=np.int64),
        np.array([kind.output_tokens for kind in kinds], dtype=np.int64),
        times,
        name,
        {"generator": name, "workers": workers, "heavies": heavies},
    )


def _check(workers: int, heavies: int) -> None:
    integer(workers, "workers", minimum=2)
    integer(heavies, "heavies", minimum=1)
