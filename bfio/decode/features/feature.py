"""The interface of a machine feature, for all code outside the phases of a step.

The interface includes the settings, checks and metrics of a feature; tables of replay rules, with
helpers that count violations; and schedules of events from CSV files or drawn at random, such as
failures, slowdowns and cancellations.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from bfio.common.options import NUMBER, read_texts, split_options
from bfio.decode.drift import Drift, DriftReading
from bfio.decode.machine.counters import NOW
from bfio.decode.options import NO_EVENTS, RANDOM, is_drawn
from formulations.arrays import MAX_TOKENS, entries
from formulations.errors import InputError
from formulations.scalars import integer, real

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bfio.common.metrics import Metric
    from bfio.decode.cluster import Cluster
    from bfio.decode.machine.state import State
    from bfio.decode.options import RunOptions
    from bfio.decode.policy_spec import PolicySpec
    from bfio.decode.replay import Replay
    from bfio.decode.run import Run, RunPart
    from bfio.workloads.workload import Workload
    from formulations.arrays import FloatArray, IntArray

#: Returns the text of a feature in the line of settings, from the machine and the options.
Setting: TypeAlias = "Callable[[Cluster, RunOptions], str]"
#: Raises InputError if a run is not possible; also gets the look-ahead, and whether requests rest.
Check: TypeAlias = "Callable[[Workload, Cluster, RunOptions, int, bool], None]"
#: Yields remarks; arguments: policies, machine, options, whether requests have prefix information.
Idle: TypeAlias = "Callable[[Sequence[PolicySpec], Cluster, RunOptions, bool], Iterator[str]]"


@dataclass(frozen=True)
class Feature:
    """A machine feature: its parts of settings, checks, remarks, record, replay and metrics."""

    name: str  #: Name of the feature's part in the line of settings.
    _: KW_ONLY
    #: Returns the feature's text in the line of settings; empty for default options.
    setting: Setting = lambda cluster, options: ""
    after: str = "dispatch"  #: Part of the line of settings that the feature's text follows.
    #: Raises `InputError` if a run is not possible.
    check: Check = lambda workload, cluster, options, look_ahead, pauses: None
    #: Yields a sentence for each requested option that has no effect.
    idle: Idle = lambda policies, cluster, options, tells_prompts: iter(())
    #: Yields a sentence if no scheduled event took place in any of several runs, which differ only
    #: in the policy.
    unseen: Callable[[Sequence[Run]], Iterator[str]] = lambda runs: iter(())
    #: Returns the feature's fields of `bfio.decode.run.Run` from the final state of a run.
    record: Callable[[State], Mapping[str, object]] = lambda state: {}
    #: Counts entries of these fields that make a replay impossible.
    malformed: Callable[[Run, Cluster], int] = lambda run, cluster: 0
    #: Rules of the replay, by name.
    rules: Mapping[str, Rule] = field(default_factory=dict)
    #: Returns the time that the feature adds to each worker's steps, shape (K, G) [s].
    worker_s: Callable[[Replay], FloatArray | float] = lambda replay: 0.0
    metrics: Iterable[Metric[RunPart]] = ()  #: Metrics of the feature.
    #: Position among the features: ascending, ties by name.
    rank: int = 100


def schedule_setting(name: str, given: str | Sequence[object]) -> str:
    """Return the text of an event schedule: as given, or number of events and digest."""
    if not isinstance(given, str):
        digest = sha256(repr(tuple(given)).encode()).hexdigest()[:8]
        return f"{name} at {len(given)} times ({digest})"
    return "" if given == "none" else f"{name} {given}"


#: Relative error allowed in a duration or a sum of two times.
ROUNDING = 1e-12

Rule: TypeAlias = "Callable[[Replay], int]"


class RuleTable(dict[str, Rule]):
    """Replay rules by name; each returns how many requests, steps or cells violate it."""

    def rule(self, name: str) -> Callable[[Rule], Rule]:
        """Register the decorated function; the first line of its docstring describes it."""

        def register(rule: Rule) -> Rule:
            self[name] = rule
            return rule

        return register


def count(at_step: IntArray, steps: int) -> IntArray:
    """Return how many entries of ``at_step`` equal each step; other steps are ignored."""
    inside = at_step[(at_step >= 0) & (at_step < steps)]
    return np.bincount(inside, minlength=steps).astype(np.int64)


def grouped(at_step: IntArray, who: IntArray, steps: int) -> list[list[int]]:
    """Return the entries of ``who`` for each step, given the step of each entry."""
    groups: list[list[int]] = [[] for _ in range(steps)]
    for step, request in zip(at_step.tolist(), who.tolist(), strict=True):
        if 0 <= step < steps:
            groups[step].append(request)
    return groups


def running_total(at_step: IntArray, steps: int) -> IntArray:
    """Return the number of entries at each step or earlier."""
    return np.cumsum(count(at_step, steps))


def profile(
    drift: Drift,
    prompt: int,
    start: int,
    steps: int,
    emitted: int = 0,
    rests: Sequence[tuple[int, int]] = (),
) -> IntArray:
    """Return the loads of ``steps`` steps of a request that starts at step ``start`` [tokens].

    The first load is ``prompt``; the request has emitted ``emitted`` tokens before. ``rests``
    holds the first step and the end step of each rest of the request.
    """
    runs = np.ones(steps - 1, dtype=np.int64)
    for first, end in rests:
        runs[first - start : end - start] = 0
    at = start + np.arange(steps - 1)
    if drift.reading is not DriftReading.GLOBAL_STEP:
        at = emitted + np.cumsum(runs) - runs
    period = np.array(drift.increments, dtype=np.int64)
    gains = runs * period[at % len(period)]
    return prompt + np.concatenate(([0], np.cumsum(gains, dtype=np.int64)))


#: Largest number of drawn events.
MOST_EVENTS = 2_000_000
#: Default length of a drawn schedule, option ``until`` [s].
DEFAULT_UNTIL_S = 1e6

Row = TypeVar("Row", bound=tuple[Any, ...])
Schedule = TypeVar("Schedule")


def read_schedule(
    option: str,
    given: str | Iterable[Row],
    columns: Mapping[str, Callable[[str], object]],
    *,
    drawn: str,
    example: str,
    draw: Callable[[str, str], Schedule],
    check: Callable[[list[Any], str], Schedule],
) -> Schedule:
    """Return the schedule of an option: ``none``, ``random:...``, a CSV file, or events.

    ``draw`` makes a random schedule from a text and a remedy for errors. ``check`` checks events,
    and receives the place named in errors. ``columns`` gives the columns of a file, with a parser
    for each. ``drawn`` is an example of a random schedule, ``example`` an example line of a file.
    """
    names = ",".join(columns)
    form = f"write {drawn}, or the name of a CSV file with {names}"
    if not isinstance(given, str):
        rows = entries(given, option)
        for k, row in enumerate(rows):
            if len(row) != len(columns):
                where = f"{option}, event {k}"
                raise InputError(where, f"{row} is not {names}", f"write e.g. {example}")
        return check(rows, option)
    if given == NO_EVENTS:
        return check([], option)
    if is_drawn(given):
        return draw(given, form)
    try:
        # Spreadsheet programs write a byte order mark before the heading.
        with Path(given).open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            lines = [(reader.line_num, line) for line in reader]
            heading = list(reader.fieldnames or ())
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or "no text"
        raise InputError(option, f"cannot read {given!r}: {reason}", form) from None
    if any(heading.count(name) != 1 for name in columns):
        remedy = f"write {names} there, and e.g. {example} below it"
        raise InputError(f"{given}, line 1", f"no heading {names}", remedy)
    rows = []
    for place, line in lines:
        try:
            rows.append(tuple(read(line[name]) for name, read in columns.items()))
            if None in line:
                raise ValueError("more cells than headings")
        except (KeyError, ValueError, TypeError, AttributeError):
            what = f"the line has no valid {', '.join(columns)}"
            remedy = f"write e.g. {example} below that heading"
            raise InputError(f"{given}, line {place}", what, remedy) from None
    return check(rows, given)


def in_order(rows: Iterable[Row], where: str, whose: str, count: int) -> Iterator[tuple[str, Row]]:
    """Yield events (time [s], worker or request, ...), each with its place for errors.

    Raises InputError for events out of order, and for an index of a ``worker`` or ``request``
    (``whose``) outside ``0..count-1``.
    """
    before = 0.0
    for k, row in enumerate(rows):
        place, (time, index) = f"{where}, event {k}", row[:2]
        if not 0 <= real(time, place) < math.inf:
            raise InputError(
                place, f"the time of the event is {time} s", "give a finite time >= 0"
            )
        if time < before:
            what = f"an event at {time} s follows an event at {before} s"
            raise InputError(place, what, "sort events by time")
        if not 0 <= integer(index, place, minimum=-MAX_TOKENS) < count:
            raise InputError(place, f"{whose} {index} is not one of the {count}", "count from 0")
        before = time
        yield place, row


#: Event of a worker: time [s], worker, and the value in the option's own column.
WorkerEvent: TypeAlias = tuple[float, int, Any]
#: Times [s], workers and values of events, each of shape (E,), and the end of the schedule [s].
Columns: TypeAlias = "tuple[FloatArray, IntArray, Any, float]"


@dataclass(frozen=True, eq=False)
class WorkerEvents:
    """An option that gives events of workers, such as failures or slowdowns.

    The option is ``none``; ``random:mtbf=SECONDS:mttr=SECONDS``, with optional ``until=SECONDS``,
    for alternating up and down times of each worker, exponential with these means; the name of a
    CSV file; or its rows.
    """

    option: str
    event: str  #: Word for an event in remarks.
    column: str  #: Name of the values in a file.
    read_value: Callable[[str], object]
    #: Examples of a drawn schedule, and of a line of a file.
    drawn: str
    example: str
    stream: int  #: Number of the random stream; policies, predictors and other options use others.
    #: Value of a drawn event, from 1 or 0 (up or down from then on) and the numbers of the text.
    value: Callable[[int, Mapping[str, float]], object]
    #: Checks events, given with their places for messages; yields their values as numbers.
    numbers: Callable[[Iterable[tuple[str, WorkerEvent]]], Iterator[float]]
    number_type: type
    #: Further numbers in the text of a drawn schedule, with their defaults.
    more: Mapping[str, float] = field(default_factory=dict)

    def read(self, given: str | Iterable[WorkerEvent], num_workers: int, seed: int) -> Columns:
        """Return the event schedule of a run.

        Raises InputError if the schedule cannot be read, is out of order, has an unknown worker,
        or has values that ``numbers`` rejects.
        """
        return read_schedule(
            self.option,
            given,
            {"time_s": float, "worker": int, self.column: self.read_value},
            drawn=self.drawn,
            example=self.example,
            draw=lambda text, remedy: _drawn(self, text, num_workers, seed, remedy),
            check=lambda rows, where: self.columns(rows, num_workers, where),
        )

    def columns(
        self, rows: list[WorkerEvent], num_workers: int, where: str, until_s: float = math.inf
    ) -> Columns:
        """Return events as arrays, after checks."""
        numbers = list(self.numbers(in_order(rows, where, "worker", num_workers)))
        time_s = np.array([time for time, _, _ in rows], dtype=np.float64)
        worker = np.array([g for _, g, _ in rows], dtype=np.int64)
        return time_s, worker, np.array(numbers, dtype=self.number_type), until_s

    def feature(self, until_s: Callable[[State], float], **more: Any) -> Feature:
        """Return the machine feature of the option; ``until_s`` gives the schedule's end [s]."""
        name = self.option

        def unseen(runs: Sequence[Run]) -> Iterator[str]:
            given, first = getattr(runs[0].options, name), runs[0]
            if given == NO_EVENTS:
                return
            time_s = self.read(given, first.cluster.workers, first.options.seed)[0]
            last_s = max((float(run.start_s[-1]) for run in runs if run.steps), default=0.0)
            if len(time_s) == 0:
                yield f"The schedule has no {self.event}: the runs equal those without a schedule."
            elif time_s[0] > last_s:
                yield (
                    f"No {self.event} took place: the first is at {time_s[0]:,.6g} s, and the "
                    f"last step begins at {last_s:,.6g} s. Times are in seconds from the start of "
                    "the run."
                )

        def record(state: State) -> dict[str, object]:
            end_s, drawn_s = float(state.clock[NOW]), until_s(state)
            if end_s > drawn_s:
                what = f"events are drawn for {drawn_s:g} s, but the run lasts {end_s:g} s"
                raise InputError(name, what, f"write e.g. until={2 * end_s:.0f}")
            return {}

        return Feature(
            name,
            setting=lambda _, options: schedule_setting(name, getattr(options, name)),
            unseen=unseen,
            record=record,
            **more,
        )


# Cached, since energy, metrics and replay ask for the schedule of a run many times.
@lru_cache(maxsize=8)
def _drawn(events: WorkerEvents, text: str, num_workers: int, seed: int, remedy: str) -> Columns:
    """Draw the events of all workers at random."""
    option, (_, texts) = events.option, split_options(text, (RANDOM,))
    kinds = dict.fromkeys(("mtbf", "mttr", "until", *events.more), NUMBER)
    values = {"until": DEFAULT_UNTIL_S, **events.more, **read_texts(kinds, texts, option)}
    for name in kinds:
        if not 0 < values.get(name, 0.0) < math.inf:
            raise InputError(option, f"{text!r} has no {name} > 0", remedy)
    mean, until = values["mtbf"] + values["mttr"], values["until"]
    if 2 * num_workers * until / mean > MOST_EVENTS:
        what = f"more than {MOST_EVENTS} events in {until:g} s"
        raise InputError(option, what, f"write e.g. until={mean * 1000:.0f}")
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(events.stream,)))
    turns: list[tuple[float, int, int]] = []
    for worker in range(num_workers):
        now, is_up = 0.0, 1
        while True:
            now += float(rng.exponential(values["mtbf" if is_up else "mttr"]))
            if now > until:
                break
            is_up = 1 - is_up
            turns.append((now, worker, is_up))
    rows = [(time, worker, events.value(is_up, values)) for time, worker, is_up in sorted(turns)]
    return events.columns(rows, num_workers, option, until)
