"""Metamorphic tests: cases, and changes with a known effect on a run.

Policies and predictors come from the registries, so that added ones are tested too. All times are
multiples of an eighth of a second, so that shifts and factors are exact in floats.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any
from zlib import crc32

import numpy as np

from bfio.decode.cluster import Cluster
from bfio.decode.features.ties import in_places
from bfio.decode.option_kinds import PrefillTier, Telemetry
from bfio.decode.options import Dispatch
from bfio.decode.policy_registry import choose, find
from bfio.decode.run import Run
from bfio.decode.simulation import simulate
from bfio.decode.state import DecodeState
from bfio.testing.states import make_state
from bfio.workloads.workload import Workload
from formulations.arrays import IntArray
from formulations.errors import InputError

#: Look-ahead of policies that have one: shorter than most requests live.
HORIZON = 5
_ONE = Workload(np.ones(1, dtype=np.int64), np.ones(1, dtype=np.int64))
#: Fields of a run that do not describe its events.
HOW = frozenset((
    "policy", "cluster", "options", "policy_options", "predictor_options", "engine", "wall_s",
    "decide_s", "measured", "statistics",
))  # fmt: skip


@dataclass(frozen=True, eq=False)
class Case:
    """A run before the change.

    Parameters
    ----------
    policy : str
        Its text.
    workload, cluster, options
        The rest of the call.
    """

    policy: str
    workload: Workload
    cluster: Cluster
    options: Mapping[str, Any]

    @cache  # noqa: B019 — there are few cases, and they are asked often
    def run(self, engine: str) -> Run | None:
        """Return what `fresh` does."""
        return self.fresh(engine)

    def fresh(self, engine: str, **changes: Any) -> Run | None:
        """Simulate the case; None if this engine does not support it."""
        options = {**self.options, **changes}
        try:
            return simulate(self.workload, self.policy, self.cluster, engine=engine, **options)
        except InputError as error:
            if "the compiled engine cannot run" not in str(error):
                raise
            return None


@cache
def text_of(policy: str) -> str:
    """Return a policy with a short look-ahead, if it has one."""
    return f"{policy}:horizon={HORIZON}" if "horizon" in choose(policy).table else policy


def drawn(policy: str, seed: int, *, features: bool = True, **fixed: Any) -> Case:
    """Draw a run of 10 to 24 requests on 2 to 4 workers.

    Each feature is used with probability 1/3. Features that the policy refuses are left out,
    starting with the last one.

    Parameters
    ----------
    policy : str
        Its name.
    seed : int
        Of the draw.
    features : bool
        Whether there are any.
    **fixed
        Options that all runs have.
    """
    rng = np.random.default_rng([crc32(policy.encode()), seed])
    n, workers = int(rng.integers(10, 25)), int(rng.integers(2, 5))
    prompts = rng.integers(1, 40, n)
    times = np.cumsum(rng.choice([0, 0, 1, 8, 40], n))
    workload = Workload(
        prompts,
        np.minimum(rng.geometric(1 / 7, n), 25),
        tuple(Fraction(int(time), 8) for time in times),
        prompt_keys=prompts % 5,
        block_hashes=[[int(prompt) % 5] for prompt in prompts],
    )
    slots = int(rng.integers(1, 4))
    cluster = Cluster(workers, slots, step_overhead_s=1.0, token_time_s=0.125)
    offered = _features(rng, policy, workload, workers) if features else []
    chosen = [feature for feature in offered if rng.random() < 1 / 3]
    while True:
        case = _with(policy, workload, cluster, chosen, fixed)
        try:
            case.run("reference")
        except InputError:
            if not chosen:
                raise
            chosen.pop()
        else:
            return case


#: Changes of the machine, and options.
_Feature = tuple[dict[str, Any], dict[str, Any]]


def _features(
    rng: np.random.Generator, policy: str, workload: Workload, workers: int
) -> list[_Feature]:
    most = int((workload.prompt_tokens + workload.output_tokens).max())

    def whole(least: int, most: int) -> int:
        return int(rng.integers(least, most + 1))

    def each(*values: float) -> tuple[Any, ...]:
        return tuple(rng.choice(values, workers).tolist())

    fails = [(whole(0, 80) / 4, g) for g in range(workers) if rng.random() < 0.5]
    events = [(t, g, "fail") for t, g in fails]
    events += [(t + whole(1, 40) / 4, g, "recover") for t, g in fails]
    slow = [(whole(0, 80) / 4, whole(0, workers - 1), float(rng.choice([2.0, 4.0]))) for _ in "ab"]
    arrivals = workload.arrival_seconds().tolist()
    gone = [(t + whole(0, 80) / 4, i) for i, t in enumerate(arrivals) if rng.random() < 0.3]
    tier = PrefillTier(whole(1, 2), 1 / 64, 0.125, 1 / 128, ttl_s=whole(8, 80) / 4)
    immediate = Dispatch.IMMEDIATE in find(policy).dispatch
    return [
        ({}, {"dispatch": "immediate"} if immediate else {}),
        ({}, {"projection": "growing", "window_knows": "all"}),
        ({"slots": each(1, 2, 3)}, {}),
        ({"memory": tuple(whole(most, 2 * most) for _ in range(workers))},
         {"overflow": str(rng.choice(["recompute", "swap", "reserve"])), "swap_time_s": 1 / 64}),
        ({"speed": each(0.5, 1.0, 2.0)}, {}),
        ({"prefix_cache": 600}, {}),
        ({}, {"failures": tuple(sorted(events))} if events else {}),
        ({}, {"stragglers": tuple(sorted(slow))}),
        ({}, {"arrivals": "timed", "cancellations": tuple(sorted(gone)) or "none"}),
        ({}, {"arrivals": "timed", "prefill": tier}),
        ({}, {"delay": whole(1, 3)}),
        ({}, {"telemetry": Telemetry(whole(1, 3), 0.0)}),
        ({"token_budget": 40, "batch_token_time_s": 1 / 64}, {"batching": "sarathi"}),
    ]  # fmt: skip


def _with(
    policy: str,
    workload: Workload,
    cluster: Cluster,
    features: list[_Feature],
    fixed: Mapping[str, Any],
) -> Case:
    options: dict[str, Any] = {"arrivals": "pool", "pool": 6, "predictor": "survival:refit=3"}
    machine: dict[str, Any] = {}
    for changes, more in features:
        machine |= changes
        options |= more
    options |= fixed
    if options["arrivals"] == "timed":
        del options["pool"]
    return Case(text_of(policy), workload, replace(cluster, **machine), options)


def differences(one: Run, two: Run, change: Callable[[str, Any], Any] | None = None) -> list[str]:
    """Return the fields in which two runs differ, once those of the first are changed."""
    found = []
    for name, first in vars(one).items():
        if name in HOW:
            continue
        if change is not None:
            first = change(name, first)
        second = getattr(two, name)
        if name in ("interruptions", "chunks") and first is not None:
            # Rows of one step may come in the order of the workers.
            first, second = (rows[np.lexsort(rows.T[::-1])] for rows in (first, second))
        if isinstance(first, np.ndarray):
            if not np.array_equal(first, second, equal_nan=first.dtype.kind == "f"):
                found.append(name)
        elif first != second:
            found.append(name)
    return found


def shifted(case: Case, seconds: int) -> tuple[Case, Callable[[str, Any], Any]]:
    """Delay all events, and return the effect on the fields of a run."""

    def change(name: str, value: Any) -> Any:
        if value is None or name not in (
            "start_s",
            "arrival_s",
            "reveal_s",
            "ready_s",
            "idle_before_s",
        ):
            return value
        if name == "idle_before_s":
            return np.concatenate((value[:1] + seconds, value[1:]))
        return value + seconds

    return _moved(case, lambda time: time + seconds), change


def slowed(case: Case, factor: int) -> tuple[Case, Callable[[str, Any], Any]]:
    """Multiply all times by a factor: arrivals, events and the machine."""

    def change(name: str, value: Any) -> Any:
        return value * factor if name.endswith("_s") and value is not None else value

    case = _moved(case, lambda time: time * factor)
    options = dict(case.options)
    if "swap_time_s" in options:
        options["swap_time_s"] *= factor
    if (tier := options.get("prefill")) is not None:
        options["prefill"] = _slow(tier, factor)
    return replace(case, cluster=_slow(case.cluster, factor), options=options), change


def _slow(owner: Any, factor: int) -> Any:
    """Multiply all fields that are times."""
    times = {name: value for name, value in vars(owner).items() if name.endswith("_s")}
    return replace(owner, **{name: value * factor for name, value in times.items()})


def _moved(case: Case, move: Callable[[Any], Any]) -> Case:
    times = tuple(move(time) for time in case.workload.exact_arrivals())
    options = dict(case.options)
    for name in ("failures", "stragglers", "cancellations"):
        if isinstance(options.get(name), tuple):
            options[name] = tuple((move(row[0]), *row[1:]) for row in options[name])
    return replace(case, workload=replace(case.workload, arrival_times=times), options=options)


class Renamed:
    """A policy with permuted workers: worker g of the policy is ``names[g]`` of the machine."""

    def __init__(self, policy: Any, names: IntArray) -> None:
        self._policy, self._names = policy, names

    def __getattr__(self, name: str) -> Any:
        return getattr(self._policy, name)

    def __call__(self, state: Any) -> Any:
        """Ask it about the state as it knows it, and name its workers."""
        answer = self._policy(in_places(state, self._names))
        named = [None if g is None else int(self._names[g]) for g in answer]
        return type(answer)(named, answer.rests) if hasattr(answer, "rests") else named


def renamed(case: Case, names: IntArray) -> tuple[Case, Callable[[str, Any], Any]]:
    """Permute the workers of the machine."""
    inside = np.argsort(names)
    machine: dict[str, Any] = {
        name: tuple(value[g] for g in inside)
        for name, value in vars(case.cluster).items()
        if isinstance(value, tuple)
    }
    options = dict(case.options)
    for name in ("failures", "stragglers"):
        if isinstance(options.get(name), tuple):
            rows = [(time, int(names[g]), what) for time, g, what in options[name]]
            options[name] = tuple(sorted(rows))

    def change(name: str, value: Any) -> Any:
        if name == "worker":
            return np.where(value >= 0, names[value], value)
        if name in ("loads", "running"):
            return value[:, inside]
        if name == "interruptions":
            rows = value.copy()
            rows[:, 1] = names[rows[:, 1]]
            return rows
        return value

    return replace(case, cluster=replace(case.cluster, **machine), options=options), change


def with_idle_workers(
    case: Case, places: IntArray, num_workers: int
) -> tuple[Case, Callable[[str, Any], Any]]:
    """Add workers that fail at once and permanently: worker g becomes ``places[g]``."""
    assert not any(isinstance(value, tuple) for value in vars(case.cluster).values())
    down = sorted(set(range(num_workers)) - set(places.tolist()))
    rows = [(0.0, g, "fail") for g in down]
    rows += [(t, int(places[g]), what) for t, g, what in case.options.get("failures", ())]
    options = {**case.options, "failures": tuple(sorted(rows))}

    def change(name: str, value: Any) -> Any:
        if name == "worker":
            return np.where(value >= 0, places[value], value)
        return value

    return replace(
        case, cluster=replace(case.cluster, workers=num_workers), options=options
    ), change


def first_steps(whole: Run, part: Run, steps: int) -> list[str]:
    """Return the fields in which the first steps of two runs differ."""
    found = []
    for name, first in vars(whole).items():
        second = getattr(part, name)
        if name in HOW or not isinstance(first, np.ndarray):
            continue
        if name in ("start_step", "finish_step", "reveal_step"):
            begun: list[Any] = [np.where(field < steps, field, -1) for field in (first, second)]
            if name == "reveal_step" and whole.expiries is not None:
                # Of one that left the pool it is the last time.
                begun = [np.delete(field, whole.expiries[:, 0]) for field in begun]
        elif len(first) == whole.steps != whole.num_requests:
            begun = [first[:steps], second[:steps]]
        else:
            continue
        if not np.array_equal(begun[0], begun[1]):
            found.append(name)
    return found


def changed_future(case: Case, run: Run, step: int, window: int) -> Case:
    """Redraw the lengths of requests that are unfinished a number of steps after a step.

    Parameters
    ----------
    case, run
        What was run.
    step : int
        The step.
    window : int
        How many steps after it lengths are known: a request that has not begun keeps its length if
        that is no more.
    """
    drawn = np.random.default_rng(step).geometric(1 / 7, run.num_requests)
    begun = (run.start_step >= 0) & (run.start_step <= step)
    emitted = np.where(begun, step - run.start_step + 1, 0)
    lengths = case.workload.output_tokens
    known = np.where(begun, run.finish_step <= step + window, lengths <= window)
    known &= begun | (window > 0)
    outputs = np.where(known, lengths, emitted + window + drawn)
    if window == 0:
        # As much as memory takes of the longest one.
        prompts = case.workload.prompt_tokens
        outputs = np.minimum(outputs, (prompts + lengths).max() - prompts)
    return replace(case, workload=replace(case.workload, output_tokens=outputs))


def drawn_state(seed: int) -> DecodeState:
    """Draw a state of one waiting request in which no two workers agree in anything.

    The request is larger than all that workers hold, so that the one that takes it is the fullest.
    """
    rng = np.random.default_rng(seed)
    workers = int(rng.integers(2, 6))

    def apart(step: int) -> list[int]:
        found: list[int] = (step * rng.permutation(workers)).tolist()
        return found

    loads = rng.choice(10**6, workers, replace=False)
    size = [int(10**7 + rng.integers(10**6))]
    columns = HORIZON + 1
    return make_state(
        loads.tolist(),
        [1 + free for free in apart(3)],
        size,
        running=apart(50),
        projected=(loads[:, None] + np.arange(columns)).tolist(),
        contributions=[[size[0] + h for h in range(columns)]],
    )


def renamed_state(seen: DecodeState, names: IntArray) -> DecodeState:
    """Permute the workers of a state: worker g becomes ``names[g]``."""
    return in_places(seen, np.argsort(names))
