"""Check runs: recompute every batch from the stage events, without the policy."""

import numpy as np

from bfio.common.checking import amounts, covered, number
from bfio.wait.run import Events, StageRun
from formulations.arrays import BoolArray, IntArray

_EVICT, _PASS = 0, 1


def violations(run: StageRun) -> dict[str, int]:
    """Return the amount of each violated rule in a run; empty if all rules hold.

    Exceeding the memory is not a violation, because Nested WAIT may do so; see
    `StageRun.overflows`. ``recorded_...[k]`` is the difference between a recorded column and the
    recomputed one at batch k. ``clock[k]`` is the time by which a batch starts too early. The
    other names count events or requests.
    """
    events = run.log.events()
    found = _order(run, events)
    if not any(found.values()):
        found |= _batches(run, events) | _requests(run, events)
    return {name: amount for name, amount in found.items() if amount}


def held_memory(run: StageRun, events: Events) -> IntArray:
    """Return the tokens of each batch and of the requests that pause during it, shape (K,).

    A request holds ``prompt + k`` from the batch of stage k until the batch of its next stage, its
    eviction, or, after its last stage, the next batch.
    """
    num = len(run.batches)
    batch, request, stage, kind = _histories(run, events)
    until = np.full(len(batch), num, dtype=np.int64)
    same = request[1:] == request[:-1]
    until[:-1][same] = batch[1:][same]
    passed = kind == _PASS
    completing = passed & (stage == run.instance.output[request])
    until[completing] = batch[completing] + 1
    tokens = run.instance.prompt[request] + stage
    return covered(batch[passed], until[passed], num, tokens[passed])


def _histories(run: StageRun, events: Events) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Return batch, request, stage and kind of all events and evictions, sorted by request."""
    evicted = run.evictions
    batch = np.concatenate((events.batch, evicted.batch))
    request = np.concatenate((events.request, evicted.request))
    stage = np.concatenate((events.stage, np.full(len(evicted), -1)))
    kind = np.concatenate((np.full(len(events), _PASS), np.full(len(evicted), _EVICT)))
    order = np.lexsort((kind, batch, request))
    return batch[order], request[order], stage[order], kind[order]


def _order(run: StageRun, events: Events) -> dict[str, int]:
    """Check that each request passes its stages in order, at most one per batch."""
    num, n = len(run.batches), len(run.instance)
    outside = (events.batch < 0) | (events.batch >= num)
    outside |= (events.request < 0) | (events.request >= n) | (events.stage < 0)
    evicted = run.evictions
    lost = (evicted.batch < 0) | (evicted.batch > num)
    lost |= (evicted.request < 0) | (evicted.request >= n)
    if np.any(outside) or np.any(lost):
        return {"events_outside": number(outside), "evictions_outside": number(lost)}
    batch, request, stage, kind = _histories(run, events)
    same = request[1:] == request[:-1]
    both_pass = same & (kind[1:] == _PASS) & (kind[:-1] == _PASS)
    # The stage of an eviction is −1, so the next stage must be 0, as at the start of a request.
    before = np.concatenate(([-1], np.where(same, stage[:-1], -1)))[: len(stage)]
    completed = np.concatenate(([False], same & (stage[:-1] == run.instance.output[request[:-1]])))
    return {
        "events_at_once": number(both_pass & (batch[1:] == batch[:-1])),
        "stages_out_of_order": number((kind == _PASS) & (stage != before + 1)),
        "stages_too_late": number(stage > run.instance.output[request]),
        "evictions_of_nothing": number((kind == _EVICT) & ((before < 0) | completed[: len(kind)])),
    }


def _batches(run: StageRun, events: Events) -> dict[str, int]:
    """Compare the recorded batches with those recomputed from the stage events."""
    instance, batches, num = run.instance, run.batches, len(run.batches)
    tokens = np.zeros(num, dtype=np.int64)
    np.add.at(tokens, events.batch, instance.prompt[events.request] + events.stage)
    prompts = np.bincount(events.batch, minlength=num)
    durations = instance.clock.fixed + instance.clock.per_token * tokens
    rebuilt = {
        "tokens": tokens,
        "prompts": prompts,
        "memory": held_memory(run, events),
        "duration": durations,
        "waiting": _waiting(run, events),
    }
    found = amounts("empty_batch", (prompts == 0).astype(np.int64))
    for name, column in rebuilt.items():
        found |= amounts(f"recorded_{name}", np.abs(column - getattr(batches, name)))
    return found | amounts("clock", batches.end[:-1] - batches.start[1:])


def _waiting(run: StageRun, events: Events) -> IntArray:
    """Return the number of waiting requests at the start of each batch, shape (K,)."""
    num = len(run.batches)
    arrived = np.searchsorted(run.instance.arrival, run.batches.start, side="right")
    started = np.bincount(events.batch[events.stage == 0], minlength=num)
    evicted = np.bincount(run.evictions.batch, minlength=num + 1)[:num]
    return np.asarray(arrived - (np.cumsum(started) - started) + np.cumsum(evicted))


def _requests(run: StageRun, events: Events) -> dict[str, int]:
    """Compare recorded request times with stage events, and starts with arrivals."""
    output, end = run.instance.output[events.request], run.batches.end[events.batch]
    early = run.batches.start[events.batch] < run.instance.arrival[events.request]
    last = events.stage == output
    return {
        "starts_before_arrival": number(early),
        "recorded_prefills": _differ(run.prefilled, events, events.stage == 0, end),
        "recorded_first_tokens": _differ(
            run.first_token, events, events.stage == np.minimum(1, output), end
        ),
        "recorded_completions": _differ(run.completion, events, last, end),
        "requests_unfinished": number(run.completion < 0) if run.is_finished else 0,
        "batches_after_horizon": 0
        if run.duration is None
        else number(run.batches.start >= run.duration),
    }


def _differ(recorded: IntArray, events: Events, which: BoolArray, end: IntArray) -> int:
    """Count requests whose recorded time differs from the first end of a selected event."""
    found = np.full(len(recorded), np.iinfo(np.int64).max)
    np.minimum.at(found, events.request[which], end[which])
    found[found == np.iinfo(np.int64).max] = -1
    return number(found != recorded)
