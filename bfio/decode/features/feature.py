"""A feature of the machine, as all that stands around its phases knows it."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeAlias

from bfio.decode.machine.counters import NOW
from bfio.decode.options import NO_EVENTS
from formulations.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from bfio.common.metrics import Metric
    from bfio.decode.cluster import Cluster
    from bfio.decode.machine.state import State
    from bfio.decode.options import RunOptions
    from bfio.decode.policy_spec import PolicySpec
    from bfio.decode.replay_record import Replay
    from bfio.decode.replay_table import Rule
    from bfio.decode.run import Run
    from bfio.decode.run_part import RunPart
    from bfio.workloads.workload import Workload
    from formulations.arrays import FloatArray

#: From the machine and the options of a run to its words in the line of settings.
Setting: TypeAlias = "Callable[[Cluster, RunOptions], str]"
#: Refuses requests on a machine with such options; look-ahead steps, and whether requests rest.
Check: TypeAlias = "Callable[[Workload, Cluster, RunOptions, int, bool], None]"
#: From policies, machine, options, and whether requests tell their prompts, to sentences.
Idle: TypeAlias = "Callable[[Sequence[PolicySpec], Cluster, RunOptions, bool], Iterator[str]]"
#: Whether a run with such a machine and options uses a part of the machine.
Used: TypeAlias = "Callable[[Cluster, RunOptions], bool]"


@dataclass(frozen=True)
class Feature:
    """What a feature adds to settings, checks, remarks, record and replay.

    Parameters
    ----------
    name : str
        What its part of a line of settings is called.
    parts : mapping
        Names that its compilable functions are marked with (``part_of``), and who uses each.
    setting : callable
        Its words there; empty where all is as by default.
    after : str
        The part of the line behind which they stand.
    check : callable
        Raises `InputError` if a run cannot be made for it.
    idle : callable
        Yields what was asked for and changes nothing, a sentence each.
    unseen : callable
        Likewise, from runs that differ in the policy only: which events none of them saw.
    record : callable
        From the state at the end of a run to its fields of `bfio.decode.run.Run`.
    malformed : callable
        Counts entries of these that no replay could follow.
    rules : mapping
        Rules of the replay of a run, by name.
    worker_s : callable
        What it adds to the times of workers in the replay of a run, shape (K, G) [s].
    metrics : iterable of Metric
        Metrics of its runs.
    rank : int
        Where it is told of among the others: in ascending order, equal ones by name.
    """

    name: str
    parts: Mapping[str, Used] = field(default_factory=dict)
    _: KW_ONLY
    setting: Setting = lambda cluster, options: ""
    after: str = "dispatch"
    check: Check = lambda workload, cluster, options, look_ahead, pauses: None
    idle: Idle = lambda policies, cluster, options, tells_prompts: iter(())
    unseen: Callable[[Sequence[Run]], Iterator[str]] = lambda runs: iter(())
    record: Callable[[State], Mapping[str, object]] = lambda state: {}
    malformed: Callable[[Run, Cluster], int] = lambda run, cluster: 0
    rules: Mapping[str, Rule] = field(default_factory=dict)
    worker_s: Callable[[Replay], FloatArray | float] = lambda replay: 0.0
    metrics: Iterable[Metric[RunPart]] = ()
    rank: int = 100


def schedule_setting(name: str, given: str | Sequence[object]) -> str:
    """Return a schedule of events in words: as it was given, or what tells its events apart."""
    if not isinstance(given, str):
        digest = sha256(repr(tuple(given)).encode()).hexdigest()[:8]
        return f"{name} at {len(given)} times ({digest})"
    return "" if given == "none" else f"{name} {given}"


def schedule_of_workers(
    name: str,
    event: str,
    read: Callable[[Any, int, int], Any],
    known_until_s: Callable[[State], float],
    **more: Any,
) -> Feature:
    """Return a feature that a schedule of events at workers makes up.

    Parameters
    ----------
    name, event : str
        Of its option, and what one of its events is called.
    read : callable
        From the option, the number of workers and the seed to the schedule.
    known_until_s : callable
        From the state to when the schedule says what happens [s].
    more
        Other fields of the feature.
    """

    def unseen(runs: Sequence[Run]) -> Iterator[str]:
        options, workers = runs[0].options, runs[0].cluster.workers
        if getattr(options, name) != NO_EVENTS:
            schedule = read(getattr(options, name), workers, options.seed)
            yield from _none_came(event, schedule.time_s, runs)

    def record(state: State) -> dict[str, object]:
        _check_covers(name, known_until_s(state), float(state.clock[NOW]))
        return {}

    return Feature(
        name,
        {name: lambda _, options: getattr(options, name) != NO_EVENTS},
        setting=lambda _, options: schedule_setting(name, getattr(options, name)),
        unseen=unseen,
        record=record,
        **more,
    )


def _none_came(what: str, time_s: FloatArray, runs: Sequence[Run]) -> Iterator[str]:
    """Yield that the first event comes after the last step of all runs has begun, if so."""
    last_s = max((float(run.start_s[-1]) for run in runs if run.steps), default=0.0)
    if len(time_s) == 0:
        yield f"The schedule has no {what}: the runs are as without one."
    elif time_s[0] > last_s:
        yield (
            f"No {what} came to pass: the first is at {time_s[0]:,.6g} s, and the last step "
            f"begins at {last_s:,.6g} s. Times are in seconds from the start of the run."
        )


def _check_covers(option: str, until_s: float, end_s: float) -> None:
    """Refuse a run that lasts longer than a schedule was drawn for."""
    if end_s > until_s:
        raise InputError(
            option,
            f"drawn for {until_s:g} s, and the run lasts {end_s:g} s",
            f"write e.g. until={2 * end_s:.0f}",
        )
