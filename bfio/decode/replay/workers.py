"""Rules of what workers hold, lose and interrupt."""

from collections import OrderedDict, deque

import numpy as np

from bfio.decode.features.batching.replay import batch_faults
from bfio.decode.options import Overflow
from bfio.decode.replay.counting import number
from bfio.decode.replay.profiles import profile
from bfio.decode.replay.record import Replay
from bfio.decode.replay.rule_table import RuleTable
from bfio.decode.stints import Cause, stints_of
from bfio.workloads.block_hashes import BLOCK_TOKENS
from bfio.workloads.workload import Workload

#: Rules of what workers hold, lose and interrupt.
WORKERS = RuleTable()


@WORKERS.rule("capacity")
def _capacity(replay: Replay) -> int:
    """Check that no worker has more requests, running or at rest, than slots."""
    return number(replay.held[1] > replay.cluster.worker_slots())


@WORKERS.rule("memory")
def _memory(replay: Replay) -> int:
    """Check that no worker ever holds more than its memory, reserved peaks included."""
    memory = replay.cluster.worker_memory()
    if replay.cluster.memory is None:
        return 0
    wrong = number(replay.held[0] > memory)
    if replay.run.options.overflow is not Overflow.RESERVE:
        return wrong
    held = np.zeros((replay.cluster.workers, replay.run.steps), dtype=np.int64)
    for request, worker, start, end, _ in replay.walk():
        output = int(replay.workload.output_tokens[request])
        peak = replay.run.options.drift.largest_gain(output - 1)
        held[worker, start:end] += int(replay.workload.prompt_tokens[request]) + peak
    return wrong + number(memory < held.T)


@WORKERS.rule("failures")
def _failures(replay: Replay) -> int:
    """Check that nothing runs on a worker that is down, and that only this takes its requests."""
    K = replay.run.steps
    down = np.zeros((K + 1, replay.cluster.workers), dtype=np.bool_)
    failed = np.zeros((K + 1, replay.cluster.workers), dtype=np.bool_)
    for step, worker, is_up in replay.outages:
        down[step:, worker] = not is_up
        failed[step, worker] |= not is_up
    wrong = number(down[:K] & (replay.held[1] > 0))
    left = replay.stints.cause == Cause.FAILURE
    wrong += number(~failed[replay.stints.end[left], replay.stints.worker[left]])
    return wrong


@WORKERS.rule("cancellations")
def _cancellations(replay: Replay) -> int:
    """Check that a request ends exactly once: done, or cancelled at the first step it can be."""
    run, K, schedule = replay.run, replay.run.steps, replay.cancellations
    due = np.full(run.num_requests, K + 1)
    due[schedule.request] = np.searchsorted(run.start_s, schedule.time_s)
    done = run.finish_step >= 0
    is_due = (due < K) & ~(done & (run.finish_step < due))
    # Whether the clock went on after the last step no step can tell.
    after = (due == K) & (run.cancel_step == K)
    wrong = number(np.where(is_due | after, due, -1) != run.cancel_step)
    wrong += number(done & (run.cancel_step >= 0))
    gone = run.cancel_step[replay.stints.request]
    wrong += number((gone >= 0) & (replay.stints.end > gone))
    left = replay.stints.cause == Cause.CANCELLATION
    return wrong + number(left & (replay.stints.end != gone))


@WORKERS.rule("prefixes")
def _prefixes(replay: Replay) -> int:
    """Check what was found in prefix caches, from when and where requests started alone."""
    hits = replay.run.prefix_hit_tokens
    if hits is None:
        return int(replay.cluster.prefix_cache is not None)
    expected = np.zeros(replay.run.steps, dtype=np.int64)
    kept = replay.cluster.worker_prefix_blocks().tolist()
    caches: list[OrderedDict[int, None]] = [OrderedDict() for _ in kept]
    losses = deque((step, worker) for step, worker, is_up in replay.outages if not is_up)
    stints = replay.stints
    waited = np.flatnonzero(stints.was_waiting)
    order = waited[np.lexsort((stints.request[waited], stints.start[waited]))]
    for request, worker, step in zip(
        *(column[order].tolist() for column in stints[:3]), strict=True
    ):
        while losses and losses[0][0] <= step:
            caches[losses.popleft()[1]].clear()
        expected[step] += _found_and_kept(replay.workload, request, caches[worker], kept[worker])
    return number(hits != expected)


def _found_and_kept(
    workload: Workload, request: int, cache: "OrderedDict[int, None]", most: int
) -> int:
    """Return the tokens of a prompt that a cache has, and let it keep the prompt."""
    blocks = workload.prompt_blocks
    own = [] if blocks is None else blocks[request].tolist()
    found = next((k for k, block in enumerate(own) if block not in cache), len(own))
    for block in reversed(own[:most]):
        cache[block] = None
        cache.move_to_end(block)
        if len(cache) > most:
            cache.popitem(last=False)
    return min(found * BLOCK_TOKENS, int(workload.prompt_tokens[request]))


@WORKERS.rule("stints")
def _stints(replay: Replay) -> int:
    """Check that stints of a request follow each other, from its first start to its last."""
    run, (request, worker, start, end, cause, _) = replay.run, replay.stints
    same = request[1:] == request[:-1]
    wrong = number(same & (start[1:] < end[:-1]))
    wrong += number(same & np.isin(cause[:-1], (-1, Cause.CANCELLATION)))
    # Who comes back from the host comes back to where it was.
    wrong += number(same & (cause[:-1] == Cause.SWAP) & (worker[1:] != worker[:-1]))
    firsts = np.flatnonzero(np.concatenate(([True], ~same))[: len(request)])
    wrong += number(run.start_step[request[firsts]] != start[firsts])
    never = np.ones(run.num_requests, dtype=np.bool_)
    never[request] = False
    return wrong + number(never & (run.start_step >= 0))


@WORKERS.rule("overflow")
def _overflow(replay: Replay) -> int:
    """Check that memory interrupts only what would not have fitted, the youngest first."""
    if not np.isin(replay.stints.cause, (Cause.RECOMPUTATION, Cause.SWAP)).any():
        return 0
    memory, all_loads = replay.cluster.worker_memory(), replay.held[0]
    oldest_gone: dict[tuple[int, int], tuple[int, int, int]] = {}
    begun: dict[tuple[int, int], int] = {}
    drift = replay.run.options.drift
    ends = zip(replay.stints.cause.tolist(), replay.stints.emitted.tolist(), strict=True)
    for (request, worker, start, end, loads), (cause, emitted) in zip(
        replay.walk(), ends, strict=True
    ):
        begun[start, worker] = begun.get((start, worker), 0) + int(loads[0])
        if cause in (Cause.RECOMPUTATION, Cause.SWAP):
            grown = profile(drift, int(loads[-1]), end - 1, 2, emitted - 1)[1]
            gone = (start, request, int(grown))
            oldest_gone[end, worker] = min(gone, oldest_gone.get((end, worker), gone))
    wrong = 0
    for (step, worker), (start, request, load) in oldest_gone.items():
        if step == replay.run.steps:
            continue
        kept = all_loads[step, worker] - begun.get((step, worker), 0)
        wrong += int(kept + load <= memory[worker])
        on_it = (replay.stints.worker == worker) & (replay.stints.end > step)
        stays = on_it & (replay.stints.start < step)
        younger = replay.stints.start > start
        younger |= (replay.stints.start == start) & (replay.stints.request > request)
        wrong += number(stays & younger)
    return wrong


@WORKERS.rule("rests")
def _rests(replay: Replay) -> int:
    """Check that requests rest while they have a slot, for no longer at a time than they may."""
    run, stints, batches = replay.run, replay.stints, replay.batches
    if run.rests is None or (run.max_pauses is None) != batches:
        return int(run.rests is not None or run.max_pauses is not None)
    if len(run.rests) == 0:
        return 0
    if len(stints.request) == 0:
        return len(run.rests)
    order = np.lexsort((run.rests[:, 1], run.rests[:, 0]))
    who, first, end = run.rests[order].T
    which = stints_of(run.rests[order], stints.request, stints.start, run.steps)
    wrong = 0 if run.max_pauses is None else number(end - first > run.max_pauses)
    # Who starts runs, unless its prompt is to be computed; who is back from the host may rest at
    # once.
    begin = stints.start[which] + (stints.was_waiting[which] & (not batches))
    wrong += number((stints.request[which] != who) | (first < begin) | (end > stints.end[which]))
    # Two without a step in between are one rest, unless it was away.
    same = which[1:] == which[:-1]
    wrong += number(same & (first[1:] <= end[:-1]))
    # The last step of one that is done emits its last token.
    return wrong + number(end == run.finish_step[who] + 1)


@WORKERS.rule("batches")
def _batches(replay: Replay) -> int:
    """Check that batches keep (2.5a) to (2.5d), and that prompts are computed once and before."""
    if not replay.batches:
        return 0
    rests, running = replay.rests_of_stints, replay.trajectory[1]
    return batch_faults(replay.run, replay.cluster, replay.stints, rests, running)
