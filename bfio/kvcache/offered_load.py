"""Offered load: the work that requests bring, over what the worker can do.

Whatever the algorithm, a request that starts once is in d_i batches and holds ``f_i``,
``f_i + 1``, ... tokens in them: its *area* is ``A_i = d_i f_i + d_i (d_i - 1)/2`` token-batches.
A batch holds at most M tokens, so n requests take at least ``Σ A_i / M`` batches. A batch lasts
``base + request·b + context·Σ j + prompt·Σ s``, and all terms but the first add up request by
request, however the requests are batched. So the worker is busy for at least ::

    Σ_i ( base·A_i / M + request·d_i + context·d_i (d_i - 1)/2 + prompt·s_i )

and the offered load ρ is the arrival rate times the mean of that. Above ρ = 1 no algorithm keeps
up. Below it one may fail as well: the bound needs every batch to be full.
"""

from fractions import Fraction

from bfio.kvcache.instance import CacheInstance
from formulations.errors import InputError


def least_busy_time(instance: CacheInstance) -> Fraction:
    """Return a lower bound on the time that serving all requests keeps the worker busy.

    Parameters
    ----------
    instance : CacheInstance
        Requests; their arrival times do not matter.

    Returns
    -------
    Fraction
        In clock units; exact for the work, and tight if every batch is full and none is repeated.
    """
    time = instance.batch_time
    # Python integers: a sum of areas times nanoseconds leaves 64 bits.
    needs: list[int] = instance.first_need.tolist()
    batches: list[int] = instance.num_batches.tolist()
    behind = sum(d * (d - 1) // 2 for d in batches)
    area = behind + sum(d * need for d, need in zip(batches, needs, strict=True))
    prompts: int = sum(instance.prompt.tolist())
    work = time.request * sum(batches) + time.context * behind + time.prompt * prompts
    return Fraction(time.base * area, instance.memory) + work


def arrival_rate(instance: CacheInstance, load: Fraction) -> Fraction:
    """Return the arrivals per clock unit with which such requests offer a load.

    Parameters
    ----------
    instance : CacheInstance
        Requests that stand for all that arrive, at least one.
    load : Fraction
        ``ρ > 0``.

    Raises
    ------
    InputError
        If there are no requests or the load is not positive.
    """
    if load <= 0:
        raise InputError("load", f"{load} is out of range", "use a number > 0")
    if len(instance) == 0:
        raise InputError("load", "there are no requests to offer it", "give some that fit")
    return load * len(instance) / least_busy_time(instance)
