"""Worst-case workloads: bad for common routing rules, or provably overloaded.

`round_robin_bad` and `jsq_bad` are instances on which common routing rules fail (BF-IO, appendix
A.1.1).

On these instances the rules send all k heavy requests to worker 0, where an even distribution
gives at most ``ceil(k / G)`` to each worker. [The paper states the ratio ``k / ceil(k / G)`` of
round-robin as ``>= G``; it is at most G, and equals G if G divides k.]

`overloaded` generates the overloaded family of BF-IO, Definition 1; `overload_violations` checks
it.

An instance is overloaded if at every step k, for every prompt length l, the pool without the
requests of length l still holds at least as many requests as there are free slots:

    min over l of |R_k minus R_k(l)| >= C_k.                                            (D1)

Whether (D1) holds at step k depends on the earlier decisions of the policy. The generator
guarantees it for any policy and a given number of steps K, by putting enough requests into the
pool at the start. Let n be the number of requests and n_l those of length l, and suppose a policy
has admitted A_k requests before step k. Then |R_k minus R_k(l)| >= n - n_l - A_k, so (D1) follows
from n - max_l n_l >= A_k + C_k. A slot that is busy at step k holds one request; its earlier
requests have finished and used at most k steps. So A_k + C_k is at most G·B plus the number of
finished requests, whose outputs sum to at most G·B·k. With sorted outputs this gives

    A_k + C_k <= G·B + max {m : the m smallest outputs sum to at most G·B·(K - 1)},    (bound)

for k < K. The right-hand side is computed exactly.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import zip_longest

import numpy as np

from bfio.workloads.generators import generate
from bfio.workloads.lengths import LengthDistribution
from bfio.workloads.workload import Workload
from formulations.arrays import IntArray, integer, integer_vector
from formulations.errors import InputError, check_kind


@dataclass(frozen=True)
class Lengths:
    """Prompt and output length of a type of request [tokens]."""

    prompt_tokens: int
    output_tokens: int

    def __post_init__(self) -> None:
        """Check all fields; an invalid value raises InputError."""
        integer(self.prompt_tokens, "prompt_tokens", minimum=1)
        integer(self.output_tokens, "output_tokens", minimum=1)


def round_robin_bad(
    workers: int,
    heavies: int,
    *,
    heavy: Lengths = Lengths(100_000, 2_000),
    short: Lengths = Lengths(1, 100),
) -> Workload:
    """Return ``heavies`` groups of one heavy request and G - 1 short requests, all at time 0.

    Round-robin from worker 0 sends all heavy requests to worker 0. With H slots per worker, all
    requests are admitted at step 0. While the heavy ones run, the largest load is ``H·(s + age)``,
    against at most ``ceil(H / G)·(s + age)`` plus the short requests for an even distribution. So
    loads per step differ by a factor up to ``H / ceil(H / G)``. The factor in step time is that of
    ``C + t_l·load``; it approaches the same limit as ``t_l·s`` becomes large relative to C.

    Parameters
    ----------
    workers : int
        ``G >= 2``.
    heavies : int
        ``H >= 1``.
    heavy, short : Lengths
        The two types of request.
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
    """Return ``heavies`` rounds for which join-shortest-queue overloads worker 0.

    Round r = 0, 1, ..., at time ``r·spacing_s``, has ``r·(G - 1)`` short requests and then a heavy
    one. Worker 0 holds r heavy requests and the short ones of earlier rounds have finished, so the
    short requests go to the other workers until all workers hold r requests. The tie for the heavy
    request goes to the lowest worker, which is worker 0 again. After k rounds the largest load is
    at least ``k·s``, against ``ceil(k / G)·(s + age)`` plus the short requests for an even
    distribution: a ratio of order G when k is a multiple of G.

    The instance requires timed arrivals (``--arrivals timed``), ``heavies`` slots per worker, and
    ties to the lowest worker. Short requests must end between rounds (``spacing_s`` covers
    ``short.output_tokens + 1`` steps), and heavy ones must outlast the rounds
    (``heavy.output_tokens`` exceeds the number of steps in ``heavies·spacing_s``). The defaults
    satisfy this for up to 16 heavy requests and the default step time, where a step with one heavy
    request takes 0.1 s and one with 16 takes 1.7 s.

    Parameters
    ----------
    workers : int
        ``G >= 2``.
    heavies : int
        Number of rounds ``k >= 1``.
    heavy, short : Lengths
        The two types of request.
    spacing_s : Fraction
        Time between rounds [s].
    """
    _check(workers, heavies)
    if spacing_s <= 0:
        raise InputError("spacing_s", f"{spacing_s} s is not > 0", "give a time > 0")
    rounds = [[short] * (r * (workers - 1)) + [heavy] for r in range(heavies)]
    kinds = [kind for burst in rounds for kind in burst]
    times = tuple(r * spacing_s for r, burst in enumerate(rounds) for _ in burst)
    return _workload("jsq-bad", kinds, times, workers, heavies)


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


#: Factor on the worst-case number of admissions at which the generator gives up.
_MAX_OVERSIZE = 64
#: Maximum admissions the generator supports; larger instances would not fit in memory.
MAX_ADMISSIONS = 10_000_000


def overloaded(
    steps: int,
    total_slots: int,
    prompts: LengthDistribution,
    outputs: LengthDistribution,
    *,
    rng: np.random.Generator,
) -> Workload:
    """Draw a workload that is overloaded for ``steps`` steps under every policy.

    Lengths are independent draws; only the number of requests is chosen, which the definition
    allows. The guarantee needs the whole workload in the pool (``pool >= len(workload)``).

    Parameters
    ----------
    steps : int
        ``K``: steps 0..K-1 are guaranteed to be overloaded.
    total_slots : int
        ``G·B``.
    prompts, outputs : LengthDistribution
        Laws of the lengths.
    rng : numpy.random.Generator
        Source of all randomness.

    Raises
    ------
    InputError
        If one prompt length has nearly all the probability, so that no size suffices.
    """
    integer(steps, "steps", minimum=1)
    integer(total_slots, "total_slots", minimum=1)
    if steps * total_slots > MAX_ADMISSIONS:
        what = f"{steps} steps x {total_slots} slots need too many requests"
        raise InputError("steps", what, "use fewer steps")
    num_requests = 2 * total_slots
    workload = generate(num_requests, prompts, outputs, rng=rng)
    while overloaded_steps(workload, total_slots) < steps:
        if len(workload) > _MAX_OVERSIZE * steps * total_slots:
            what = "one length makes up nearly all prompts"
            raise InputError("prompts", what, "use a distribution with more varied lengths")
        more = generate(len(workload), prompts, outputs, rng=rng)
        workload = Workload(
            np.concatenate([workload.prompt_tokens, more.prompt_tokens]),
            np.concatenate([workload.output_tokens, more.output_tokens]),
        )
    provenance = {
        "generator": "overloaded",
        "prompts": prompts.label,
        "outputs": outputs.label,
        "overloaded_steps": steps,
        "total_slots": total_slots,
    }
    return Workload(workload.prompt_tokens, workload.output_tokens, None, "overloaded", provenance)


def overloaded_steps(workload: Workload, total_slots: int) -> int:
    """Return the number of steps for which a workload is provably overloaded for every policy.

    The proof is the (bound) of this module, with the whole workload in the pool from the start. 0
    means that not even the first step is certified.
    """
    integer(total_slots, "total_slots", minimum=1)
    spare: int = _outside_largest_class(workload.prompt_tokens) - total_slots
    if spare < 0:
        return 0
    # K steps are certified iff the (spare + 1) smallest outputs exceed G·B·(K - 1).
    shortest = np.sort(workload.output_tokens)[: spare + 1]
    return (int(sum(shortest.tolist())) - 1) // total_slots + 1


def overload_violations(
    pending: Iterable[Sequence[int] | IntArray], free_slots: Iterable[int]
) -> dict[int, int]:
    """Check Definition 1 on a recorded run; return the number of missing requests by step.

    Parameters
    ----------
    pending : iterable of sequences of int
        Prompt lengths of the requests in the pool at each step, before admission.
    free_slots : iterable of int
        ``C_k``, total free slots at each step, as long as ``pending``.

    Returns
    -------
    dict
        ``C_k - min_l |R_k minus R_k(l)|`` for each step k where it is positive; empty if
        overloaded.
    """
    check_kind(pending, Iterable, "pending", "a list of prompt lengths for each step")
    check_kind(free_slots, Iterable, "free_slots", "a list of numbers, one for each step")
    violations = {}
    # If one is shorter, its next entry is refused as None.
    for step, (prompts, free) in enumerate(zip_longest(pending, free_slots)):
        lengths = integer_vector(prompts, f"pending[{step}]", minimum=1)
        missing = integer(free, f"free_slots[{step}]") - _outside_largest_class(lengths)
        if missing > 0:
            violations[step] = missing
    return violations


def is_overloaded(pending: Iterable[Sequence[int] | IntArray], free_slots: Iterable[int]) -> bool:
    """Return whether a recorded run is overloaded at every step; see `overload_violations`."""
    return not overload_violations(pending, free_slots)


def _outside_largest_class(prompts: IntArray) -> int:
    # Removing the largest class attains the minimum over l; an absent length removes no request.
    if len(prompts) == 0:
        return 0
    _, counts = np.unique(prompts, return_counts=True)
    return len(prompts) - int(counts.max())
