"""Check runs: recompute every batch from the stays in the cache, without the algorithm."""

import numpy as np

from bfio.common.checking import amounts, covered, number
from bfio.kvcache.run import CacheRun, StayEnd
from formulations.arrays import IntArray
from formulations.hindsight_latency import Convention


def violations(run: CacheRun) -> dict[str, int]:
    """Return the amount of each violated rule in a run; empty if all rules hold.

    ``memory_limit[k]`` is the excess in tokens in batch k. ``recorded_...[k]`` is the difference
    between a recorded column and the recomputed one. ``clock[k]`` is the time by which a batch
    starts too early. The other names count requests or stays.
    """
    found = _stays(run)
    if not found["stays_outside"]:
        # The other checks require all stays to lie within the run.
        found |= _batches(run) | _requests(run)
    return {name: amount for name, amount in found.items() if amount}


def memory_of_batches(run: CacheRun) -> IntArray:
    """Return the tokens in the cache in each batch, recomputed from the stays, shape (K,)."""
    instance, stays, num = run.instance, run.stays, len(run.batches)
    first, after = stays.first_batch, stays.first_batch + stays.num_batches
    # In batch k a stay holds k + (need - first) tokens.
    offset = instance.prompt[stays.request] + instance.convention.first_age - first
    return _active(run) * np.arange(num) + covered(first, after, num, offset)


def _stays(run: CacheRun) -> dict[str, int]:
    """Check that stays are within the run and that stays of a request do not overlap."""
    stays, num = run.stays, len(run.batches)
    after = stays.first_batch + stays.num_batches
    full = run.instance.output + (1 if run.instance.convention is Convention.CLOSED else 0)
    done = stays.end == StayEnd.COMPLETED
    order = np.lexsort((stays.first_batch, stays.request))
    same = stays.request[order][1:] == stays.request[order][:-1]
    overlap = same & (stays.first_batch[order][1:] < after[order][:-1])
    resumed = same & done[order][:-1]
    outside = (stays.first_batch < 0) | (stays.num_batches < 1) | (after > num)
    lengths = full[stays.request]
    return {
        "stays_outside": number(outside),
        "stays_overlapping": number(overlap),
        "stays_after_completion": number(resumed),
        "stays_of_wrong_length": number(done & (stays.num_batches != lengths)),
        "stays_overdue": number(~done & (stays.num_batches >= lengths)),
        "stays_open": number(stays.end == StayEnd.OPEN) if run.is_finished else 0,
    }


def _batches(run: CacheRun) -> dict[str, int]:
    """Check the memory of each batch, and compare recorded batches with those of the stays."""
    batches, memory = run.batches, memory_of_batches(run)
    end = batches.start + batches.duration
    found = amounts("memory_limit", memory - run.instance.memory)
    found |= amounts("recorded_memory", np.abs(memory - batches.memory))
    found |= amounts("recorded_active", np.abs(_active(run) - batches.active))
    found |= amounts("recorded_duration", np.abs(_durations(run) - batches.duration))
    return found | amounts("clock", end[:-1] - batches.start[1:])


def _active(run: CacheRun) -> IntArray:
    first = run.stays.first_batch
    return covered(first, first + run.stays.num_batches, len(run.batches))


def _durations(run: CacheRun) -> IntArray:
    instance, stays, time = run.instance, run.stays, run.instance.batch_time
    started = np.zeros(len(run.batches), dtype=np.int64)
    np.add.at(started, stays.first_batch, instance.prompt[stays.request])
    need = instance.prompt[stays.request] + instance.convention.first_age
    after = stays.first_batch + stays.num_batches
    # Tokens beyond the need in the first batch are the output tokens produced so far.
    context = memory_of_batches(run) - covered(stays.first_batch, after, len(run.batches), need)
    return time.base + time.request * _active(run) + time.context * context + time.prompt * started


def _requests(run: CacheRun) -> dict[str, int]:
    """Compare starts and completions with the last stays, and starts with arrivals."""
    stays, batches, n = run.stays, run.batches, len(run.instance)
    start, completion = np.full((2, n), -1, dtype=np.int64)
    last = stays.first_batch + stays.num_batches - 1
    at_start = run.instance.convention is Convention.CLOSED
    ends = batches.start[last] + (0 if at_start else 1) * batches.duration[last]
    done = stays.end == StayEnd.COMPLETED
    lasting = stays.end != StayEnd.CLEARED
    start[stays.request[lasting]] = batches.start[stays.first_batch[lasting]]
    completion[stays.request[done]] = ends[done]
    early = batches.start[stays.first_batch] < run.instance.arrival[stays.request]
    return {
        "starts_before_arrival": number(early),
        "recorded_starts": number(start != run.start),
        "recorded_completions": number(completion != run.completion),
        "requests_unfinished": number(completion < 0) if run.is_finished else 0,
    }
