"""Built-in policies on the compiled engines; other policies are left to the reference."""

import numpy as np

from bfio.common.engine_choice import Engine
from bfio.common.kernel_groups import ensure_compiled
from bfio.wait.chains import Chain, ThresholdPolicy
from bfio.wait.engine import Ending
from bfio.wait.fcfs import Favour, FirstComeFirstServed
from bfio.wait.instance import MAX_CLOCK, StageClock, StageInstance
from bfio.wait.kernels import chains, fcfs, run_state
from bfio.wait.logs import ChainLog, SpanLog
from bfio.wait.policy import StagePolicy
from bfio.wait.run import EventLog, Evictions, StageBatches, StageRun, StageVerdict
from formulations.arrays import IntArray, frozen, frozen_columns

_VERDICTS = {
    run_state.FINISHED: StageVerdict.FINISHED,
    run_state.HORIZON: StageVerdict.HORIZON,
    run_state.STUCK: StageVerdict.STUCK,
    run_state.STOPPED: StageVerdict.STOPPED,
}


def compile_kernels() -> None:
    """Compile the kernels, or load them from the cache on disk, before any clock runs."""
    zero, one = np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64)
    instance = StageInstance(2, StageClock(1, 1, 0), zero, one, one)
    for policy in (ThresholdPolicy((Chain((1,), (1,)),)), FirstComeFirstServed()):
        run_compiled(instance, policy, "", Ending())


def run_compiled(
    instance: StageInstance, policy: StagePolicy, name: str, ending: Ending
) -> StageRun:
    """Run a built-in policy as `bfio.wait.engine.run_reference` does, with its arguments."""
    ensure_compiled("wait")
    if isinstance(policy, ThresholdPolicy):
        return _run_chains(instance, policy, name, ending)
    assert isinstance(policy, FirstComeFirstServed)
    return _run_fcfs(instance, policy, name, ending)


def _run_chains(
    instance: StageInstance, policy: ThresholdPolicy, name: str, ending: Ending
) -> StageRun:
    chain = policy.chain_of(instance)
    ended, times, batches, levels, entries = chains.run_chains(
        _requests(instance, chain, len(policy.chains)),
        _segments(policy),
        _ending(ending),
        _speed(instance),
        _num_entries(instance, policy, chain),
    )
    log = ChainLog(instance, policy, frozen(levels.copy()), *frozen_columns(entries))
    no_evictions = np.empty((0, 2), dtype=np.int64)
    return _run(instance, name, ending, ended, times, batches, no_evictions, log)


def _run_fcfs(
    instance: StageInstance, policy: FirstComeFirstServed, name: str, ending: Ending
) -> StageRun:
    rule = fcfs.Rule(
        new_first=policy.favour is Favour.NEW,
        limit=policy.limit,
        token_limit=policy.token_limit,
        mixed=policy.mixed,
        memory=instance.memory,
    )
    # Copies: contiguous and writeable, so that one machine code serves all.
    requests = fcfs.Requests(
        instance.arrival.copy(), instance.prompt.copy(), instance.output.copy()
    )
    ended, times, batches, spans, evictions = fcfs.run_fcfs(
        requests, rule, _ending(ending), _speed(instance)
    )
    log = SpanLog(*frozen_columns(spans))
    return _run(instance, name, ending, ended, times, batches, evictions, log)


def _ending(ending: Ending) -> run_state.Ending:
    horizon = run_state.NONE if ending.horizon is None else ending.horizon
    return run_state.Ending(horizon, ending.drain, ending.batches, MAX_CLOCK)


def _speed(instance: StageInstance) -> run_state.Speed:
    return run_state.Speed(instance.clock.fixed, instance.clock.per_token)


def _requests(instance: StageInstance, chain: IntArray, num: int) -> chains.Requests:
    return chains.Requests(
        arrival=instance.arrival.copy(),
        prompt=instance.prompt.copy(),
        output=instance.output.copy(),
        chain=chain.copy(),
        first_of_chain=np.searchsorted(np.sort(chain), np.arange(num + 1)).astype(np.int64),
        of_chain=np.argsort(chain, kind="stable").astype(np.int64),
    )


def _segments(policy: ThresholdPolicy) -> chains.Segments:
    rows = [row for chain in policy.chains for row in chain.segments]
    entry, end, threshold = np.array(rows, dtype=np.int64).T
    return chains.Segments(
        first=_running_total([len(chain.ends) for chain in policy.chains]),
        entry=entry.copy(),
        end=end.copy(),
        threshold=threshold.copy(),
        ring=_running_total((end - entry + 1).tolist()),
    )


def _running_total(counts: list[int]) -> IntArray:
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int64)


def _num_entries(instance: StageInstance, policy: ThresholdPolicy, chain: IntArray) -> int:
    """Return how many segments all requests begin with together."""
    total = 0
    for c, one in enumerate(policy.chains):
        outputs = instance.output[chain == c]
        total += int((np.searchsorted(one.ends, outputs) + 1).sum())
    return total


def _run(
    instance: StageInstance,
    name: str,
    ending: Ending,
    ended: int,
    times: run_state.Times,
    batches: IntArray,
    evictions: IntArray,
    log: EventLog,
) -> StageRun:
    verdict = _VERDICTS[ended]
    if ending.horizon is not None and verdict is not StageVerdict.STOPPED:
        verdict = StageVerdict.HORIZON
    return StageRun(
        instance=instance,
        policy=name,
        verdict=verdict,
        horizon=ending.horizon,
        batches=StageBatches(*frozen_columns(batches)),
        prefilled=frozen(times.prefilled),
        first_token=frozen(times.first_token),
        completion=frozen(times.completion),
        evictions=Evictions(*frozen_columns(evictions)),
        log=log,
        engine=Engine.COMPILED,
    )
