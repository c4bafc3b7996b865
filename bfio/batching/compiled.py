"""Runs with built-in policies in machine code."""

from collections.abc import Callable

from bfio.batching.engine import RunInProgress, new_machine, served_by_policies
from bfio.batching.machine import Machine
from bfio.batching.phases import load, run_slots
from bfio.batching.scenario import Scenario
from bfio.batching.streams import Streams
from bfio.common.compilable import rewired
from bfio.common.kernel_groups import ensure_compiled
from bfio.common.kernels import entry_point
from formulations.batching import single_engine

#: `run_slots` with the built-in rule, as machine code.
run_slots_compiled: Callable[[Machine, int, int], int] = entry_point(
    rewired(run_slots, form_batch=load)
)


def compile_kernels() -> None:
    """Compile the kernel, or load it from the cache on disk, before a run is timed."""
    # The rate is positive: a scenario without arrivals would not call the kernel.
    scenario = Scenario(single_engine(1, 1, 1, budget=1))
    compiled(scenario, Streams(scenario, 0), (0, 0, 0)).advance(1)


def compiled(
    scenario: Scenario,
    streams: Streams,
    deadlines: tuple[int, int, int],
    *,
    keeps_log: bool = False,
) -> RunInProgress:
    """Return a run with built-in policies in machine code; arguments as in `interpreted`."""
    ensure_compiled("batching")
    state = new_machine(scenario, streams, served_by_policies(scenario), keeps_log=keeps_log)

    def run(machine: Machine, until: int) -> int:
        # The machine code contains the rule, so the last argument is not used.
        return run_slots_compiled(machine, until, 0)

    return RunInProgress(streams, state, run, deadlines)
