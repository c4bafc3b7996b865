"""The overloaded family of BF-IO, Definition 1: a generator that guarantees it and a checker.

An instance is overloaded if at every step k, for every prompt length l, the pool without the
requests of length l still holds at least as many requests as there are free slots:

    min over l of |R_k minus R_k(l)| >= C_k.                                            (D1)

Whether (D1) holds at step k depends on what the policy has taken before. The generator makes it
hold whatever the policy does, for a stated number of steps K, by putting enough requests into the
pool at the start. Let n be the number of requests, n_l that of length l, and suppose a policy has
admitted A_k requests before step k. Then |R_k minus R_k(l)| >= n - n_l - A_k, so (D1) follows
from n - max_l n_l >= A_k + C_k. A slot that is busy at step k holds one request, and all others
that it had are finished and have used up k steps at most; so A_k + C_k is at most G·B plus the
number of finished requests, whose outputs sum to at most G·B·k. With the outputs sorted, that is

    A_k + C_k <= G·B + max {m : the m smallest outputs sum to at most G·B·(K - 1)},    (bound)

for k < K. The right-hand side is computed, not estimated.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from bfio.workloads.generators import generate
from bfio.workloads.lengths import LengthDistribution
from bfio.workloads.workload import Workload
from formulations.arrays import IntArray, integer, integer_vector
from formulations.errors import InputError

#: The generator gives up when this many times the worst-case number of admissions do not help.
_MAX_OVERSIZE = 64
#: Most admissions the generator plans for; beyond it an instance would not fit in memory.
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

    Lengths are independent draws; only how many there are is chosen, as the definition lets the
    adversary do. Run it with the whole workload in the pool (``pool >= len(workload)``).

    Parameters
    ----------
    steps : int
        ``K``, steps 0..K-1 are guaranteed.
    total_slots : int
        ``G·B``.
    prompts, outputs : LengthDistribution
        Laws of the lengths.
    rng : numpy.random.Generator
        The only source of randomness.

    Raises
    ------
    InputError
        If one prompt length makes up nearly all of the law, so that no size would do.
    """
    integer(steps, "steps", minimum=1)
    integer(total_slots, "total_slots", minimum=1)
    if steps * total_slots > MAX_ADMISSIONS:
        raise InputError(
            "steps", f"{steps} steps x {total_slots} slots is too much", "ask for fewer steps"
        )
    num_requests = 2 * total_slots
    workload = generate(num_requests, prompts, outputs, rng=rng)
    while overloaded_steps(workload, total_slots) < steps:
        if len(workload) > _MAX_OVERSIZE * steps * total_slots:
            raise InputError(
                "prompts", "one length makes up nearly all prompts", "use a law with more variety"
            )
        workload = _joined(workload, generate(len(workload), prompts, outputs, rng=rng))
    provenance = {
        "generator": "overloaded",
        "prompts": prompts.label,
        "outputs": outputs.label,
        "overloaded_steps": steps,
        "total_slots": total_slots,
    }
    return Workload(workload.prompt_tokens, workload.output_tokens, None, "overloaded", provenance)


def overloaded_steps(workload: Workload, total_slots: int) -> int:
    """Return how many steps a workload is certified overloaded for, whatever the policy does.

    The certificate is the (bound) of this module, for the whole workload in the pool from the
    start. 0 means that not even the first step is certified.
    """
    integer(total_slots, "total_slots", minimum=1)
    spare: int = _outside_largest_class(workload.prompt_tokens) - total_slots
    if spare < 0:
        return 0
    # K steps are certified iff the (spare + 1) smallest outputs do not fit into G·B·(K - 1).
    shortest = np.sort(workload.output_tokens)[: spare + 1]
    return (int(sum(shortest.tolist())) - 1) // total_slots + 1


def overload_violations(
    pending: Iterable[Sequence[int] | IntArray], free_slots: Iterable[int]
) -> dict[int, int]:
    """Check Definition 1 on a recorded run: step to number of requests missing.

    Parameters
    ----------
    pending : iterable of sequences of int
        Prompt lengths of the requests in the pool at each step, before admission.
    free_slots : iterable of int
        ``C_k``, total free slots at each step, as long as ``pending``.

    Returns
    -------
    dict
        Step k to ``C_k - min_l |R_k minus R_k(l)|`` where that is positive; empty if overloaded.
    """
    violations = {}
    for step, (prompts, free) in enumerate(zip(pending, free_slots, strict=True)):
        lengths = integer_vector(prompts, f"pending[{step}]", minimum=1)
        missing = integer(free, f"free_slots[{step}]") - _outside_largest_class(lengths)
        if missing > 0:
            violations[step] = missing
    return violations


def is_overloaded(pending: Iterable[Sequence[int] | IntArray], free_slots: Iterable[int]) -> bool:
    """Tell whether a recorded run is overloaded at every step; see `overload_violations`."""
    return not overload_violations(pending, free_slots)


def _outside_largest_class(prompts: IntArray) -> int:
    # Leaving out the largest class attains the minimum over l; an absent length leaves out none.
    if len(prompts) == 0:
        return 0
    _, counts = np.unique(prompts, return_counts=True)
    return len(prompts) - int(counts.max())


def _joined(first: Workload, second: Workload) -> Workload:
    return Workload(
        np.concatenate([first.prompt_tokens, second.prompt_tokens]),
        np.concatenate([first.output_tokens, second.output_tokens]),
    )
