"""Worst cases for barrier-synchronised workers: small instances, and policies of `bfio.decode`.

`adversary` is a worst case for policies that do not know output lengths. All prompts are one
token, so requests are indistinguishable until they end. Whenever no long request runs, the next
request to start is made long; all others end after one step. So G long requests never run at the
same time under any policy, while the optimum runs them in parallel. For the sum of peaks the ratio
tends to G as they become longer (docs/worst-cases.md).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from itertools import pairwise, product
from typing import Any, TypeAlias

import numpy as np

from bfio.decode.cluster import Cluster
from bfio.decode.options import (
    Dispatch,
    Projection,
    RunOptions,
    WindowKnows,
)
from bfio.decode.policy_registry import choose
from bfio.decode.simulation import simulate
from bfio.workloads.workload import Workload
from bfio.worst_cases.case import MAX_REQUESTS, Found, against, check_counts, refused_as_random
from formulations.errors import InputError
from formulations.hindsight_makespan import (
    MakespanObjective,
    MakespanProblem,
    MakespanProgram,
    list_schedule,
)
from formulations.problem_data import member
from formulations.words import counted

#: Prompt and output of a request.
Request: TypeAlias = tuple[int, int]
#: Starts and workers.
Schedule: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]
#: Policies that start the oldest requests; with one slot per worker all of them are equivalent.
_OLDEST_FIRST = ("fcfs", "fcfs-by-index", "jsq", "round-robin")


class Criterion(StrEnum):
    """Objective of the hindsight optimum; all requests arrive at step 0."""

    #: Sum over steps of the maximum load: the total time of steps with C = 0 and t_l = 1.
    PEAKS = "peaks"
    #: Number of busy steps: the total time of steps with C = 1 and t_l = 0.
    STEPS = "steps"
    #: Total imbalance of work-conserving schedules.
    IMBALANCE = "imbalance"
    #: Total latency in steps.
    LATENCY = "latency"

    @property
    def objective(self) -> MakespanObjective:
        """The objective of the hindsight program."""
        named = {Criterion.IMBALANCE: "imbalance", Criterion.LATENCY: "latency"}
        return MakespanObjective(named.get(self, "wall-clock"))

    @property
    def times(self) -> tuple[Fraction, Fraction]:
        """Overhead ``C`` and token time ``t_l`` of a step."""
        counts_steps = self is Criterion.STEPS
        return Fraction(int(counts_steps)), Fraction(int(not counts_steps))


class Known(StrEnum):
    """Output lengths that a policy with a look-ahead window can read."""

    NOTHING = "nothing"
    ACTIVE = "active"
    ALL = "all"


@dataclass(frozen=True)
class BarrierSpace:
    """Ordered lists of requests that arrive at step 0, for G workers with B slots.

    The order matters: first come, first served depends on it, and other policies use it for ties.
    If slots are filled with the oldest requests and each worker has one slot, costs do not depend
    on the worker of a request. Then the G requests that start first are listed in one order only.

    Parameters
    ----------
    requests, workers, slots : int
        ``n``, ``G`` and ``B``.
    prompt, output : int
        Maximum prompt [tokens] and output [steps]; both start at 1.
    criterion : Criterion
        Objective of the optimum.

    Raises
    ------
    InputError
        If a value is invalid.
    """

    requests: int
    workers: int = 2
    slots: int = 1
    prompt: int = 3
    output: int = 3
    criterion: Criterion = Criterion.PEAKS

    def __post_init__(self) -> None:
        """Validate the fields, and convert texts to their values."""
        check_counts(self, ("requests", "workers", "slots", "prompt", "output"))
        object.__setattr__(self, "criterion", member(Criterion, self.criterion, "criterion"))

    def __str__(self) -> str:
        """Return a description of the instances."""
        return (
            f"{self.requests} requests at step 0 in every order, prompts up to {self.prompt}, "
            f"outputs up to {self.output}, {counted(self.workers, 'worker')} of "
            f"{counted(self.slots, 'slot')}, {self.criterion}"
        )

    def size(self, target: "BarrierTarget") -> int:
        """Return the number of lists of requests, including equivalent ones."""
        del target
        size: int = (self.prompt * self.output) ** self.requests
        return size

    def instances(self, target: "BarrierTarget") -> Iterator[MakespanProblem]:
        """Yield one instance of each class, in lexicographic order."""
        kinds = list(product(range(1, self.prompt + 1), range(1, self.output + 1)))
        first = self.workers if self.slots == 1 and target.is_oldest_first else 1
        for requests in product(kinds, repeat=self.requests):
            head = requests[:first]
            if all(a <= b for a, b in pairwise(head)):
                yield self.problem(requests)

    def problem(self, requests: Sequence[Request]) -> MakespanProblem:
        """Return the instance with rows of prompt and output."""
        prompt, output = np.array(requests, dtype=np.int64).T
        overhead, token = self.criterion.times
        return MakespanProblem(
            workers=self.workers,
            slots=self.slots,
            arrival=np.zeros(len(requests), dtype=np.int64),
            prompt=prompt,
            output=output,
            step_overhead=overhead,
            token_time=token,
            objective=self.criterion.objective,
        )

    def draw(self, rng: np.random.Generator) -> MakespanProblem:
        """Return a random instance with a few distinct requests."""
        most = (self.prompt, self.output)
        kinds = [tuple(int(rng.integers(1, m + 1)) for m in most) for _ in range(3)]
        chosen = rng.integers(0, len(kinds), self.requests).tolist()
        return self.problem([(kinds[k][0], kinds[k][1]) for k in chosen])

    def neighbour(self, problem: MakespanProblem, rng: np.random.Generator) -> MakespanProblem:
        """Return an instance with a changed prompt, output or order, or a copied request."""
        rows = list(zip(problem.prompt.tolist(), problem.output.tolist(), strict=True))
        move, i, j = (int(rng.integers(most)) for most in (4, self.requests, self.requests))
        if move == 0:
            rows[i] = int(rng.integers(1, self.prompt + 1)), rows[i][1]
        elif move == 1:
            rows[i] = rows[i][0], int(rng.integers(1, self.output + 1))
        elif move == 2:
            rows[i] = rows[j]
        else:
            rows.insert(j, rows.pop(i))
        return self.problem(rows)


class _RefusingGenerator(np.random.Generator):
    """Generator that refuses every use."""

    def __getattribute__(self, name: str) -> Any:
        """Refuse."""
        raise refused_as_random("a policy that draws from state.rng")


class _OptionsWithoutDraws(RunOptions):
    """Options of a run whose policy must not draw random numbers."""

    def generator(self) -> np.random.Generator:
        """Return a generator that refuses every use."""
        return _RefusingGenerator(np.random.PCG64(0))


class BarrierTarget:
    """A policy of the decode engine with all requests visible at step 0.

    Parameters
    ----------
    policy : str
        Name with options, for example ``"br-h:gamma=1"``.
    known : Known
        Output lengths visible in a look-ahead window (predictor ``oracle``).
    dispatch : Dispatch
        Whether requests are assigned to workers when they start, or all at step 0.

    Raises
    ------
    InputError
        If the policy is random or pauses requests, so that starts do not determine the schedule,
        or lengths are given to a policy without look-ahead.
    """

    def __init__(
        self,
        policy: str,
        known: Known = Known.NOTHING,
        dispatch: Dispatch = Dispatch.POOLED,
    ) -> None:
        self._policy = policy
        self._known = member(Known, known, "known")
        self._dispatch = member(Dispatch, dispatch, "dispatch")
        chosen = choose(policy)
        self._is_own = chosen.is_own
        if chosen.spec.draws and not chosen.is_own:
            raise refused_as_random(policy)
        if chosen.spec.pauses:
            remedy = "use a policy that does not pause"
            raise InputError("policy", f"{policy} pauses requests", remedy)
        if self._known is not Known.NOTHING and chosen.look_ahead() == 0:
            what = f"{policy} does not look ahead, so it reads no lengths"
            raise InputError("known", what, "use nothing, or a policy that looks ahead")
        said = [policy]
        if self._known is not Known.NOTHING:
            said.append(f"lengths known of {self._known} requests")
        if self._dispatch is Dispatch.IMMEDIATE:
            said.append("bound at arrival")
        self.name = ", ".join(said)
        #: Whether free slots go to the oldest requests, independent of known lengths.
        self.is_oldest_first = chosen.name in _OLDEST_FIRST and self._dispatch is Dispatch.POOLED
        self._optima: dict[tuple[object, ...], Schedule] = {}

    def program(self, problem: MakespanProblem) -> MakespanProgram:
        """Return the hindsight makespan program."""
        return MakespanProgram(problem)

    def schedule(self, problem: MakespanProblem) -> Schedule:
        """Return starts and workers in the run of the policy."""
        # Only policies of your own do not say whether they draw; their runs are interpreted.
        kind = _OptionsWithoutDraws if self._is_own else RunOptions
        options = kind(
            pool=max(problem.num_requests, 1),
            dispatch=self._dispatch,
            projection=Projection.GROWING,
            predictor="none" if self._known is Known.NOTHING else "oracle",
            window_knows=WindowKnows.ALL if self._known is Known.ALL else WindowKnows.ACTIVE,
        )
        run = simulate(
            Workload(problem.prompt, problem.output),
            self._policy,
            Cluster(problem.workers, problem.slots),
            options=options,
            keep_trajectory=False,
        )
        return tuple(run.start_step.tolist()), tuple(run.worker.tolist())

    def optimum(self, problem: MakespanProblem, most: int = 0) -> Schedule:
        """Return an optimal schedule; instances with the same requests share a solve."""
        del most
        rows = list(zip(problem.prompt.tolist(), problem.output.tolist(), strict=True))
        order = sorted(range(len(rows)), key=rows.__getitem__)
        key = (problem.workers, problem.slots, problem.objective, problem.rates, *sorted(rows))
        if key not in self._optima:
            self._optima[key] = _optimum(problem, order)
        schedule = self._optima[key]
        places = sorted(range(len(order)), key=order.__getitem__)
        return tuple(schedule[0][k] for k in places), tuple(schedule[1][k] for k in places)

    def better(self, problem: MakespanProblem) -> Schedule:
        """Return `optimum`: small instances are solved immediately."""
        return self.optimum(problem)


def _optimum(problem: MakespanProblem, order: Sequence[int]) -> Schedule:
    """Solve the same requests in another order."""
    # Imported here, because it loads compiled kernels.
    from bfio.hindsight.makespan import solve_makespan

    chosen = list(order)
    listed = replace(problem, prompt=problem.prompt[chosen], output=problem.output[chosen])
    result = solve_makespan(listed)
    if not result.is_optimal or result.starts is None or result.workers is None:
        raise InputError("instance", "its optimum was not proven", "use smaller instances")
    return tuple(result.starts), tuple(result.workers)


def adversary(target: BarrierTarget, space: BarrierSpace) -> Found:
    """Return the adversarial instance of a policy, and a schedule with parallel long requests.

    Parameters
    ----------
    target : BarrierTarget
        A policy that does not know lengths.
    space : BarrierSpace
        Workers, slots and criterion; ``output`` is the length of long requests. The number of
        requests follows from these.

    Raises
    ------
    InputError
        If there would be too many requests, or the criterion is not ``peaks``.
    """
    if space.criterion is not Criterion.PEAKS:
        raise InputError("criterion", f"{space.criterion} has no adversary here", "use peaks")
    problem = _instance(target, space)
    longest_first = np.argsort(-problem.output, kind="stable").tolist()
    case = against(target, problem, list_schedule(problem, longest_first))
    told = (
        f"{problem.num_requests} requests of prompt 1, {space.workers} of output {space.output} "
        f"one after the other, {counted(space.workers, 'worker')} of "
        f"{counted(space.slots, 'slot')}, peaks"
    )
    return Found(case, "adversary", told, space.workers + 1, 1, is_maximal=False)


def _instance(target: BarrierTarget, space: BarrierSpace) -> MakespanProblem:
    """Run the policy repeatedly; the first request to start while none is long is made long."""
    length, lanes = space.output, space.workers * space.slots
    # While a long request runs, every other slot can start a short one in each step.
    count = space.workers * ((lanes - 1) * length + 1)
    if count > MAX_REQUESTS:
        what = f"{count:,} requests are too many"
        raise InputError("space", what, "lower output, workers or slots")
    outputs, free_from = [1] * count, 0
    problem = space.problem([(1, o) for o in outputs])
    for _ in range(space.workers):
        starts, _ = target.schedule(problem)
        coming = [i for i, start in enumerate(starts) if start >= free_from and outputs[i] == 1]
        if not coming:
            # Only a policy that knows lengths can leave no request to start later.
            break
        chosen = min(coming, key=lambda i: starts[i])
        outputs[chosen], free_from = length, starts[chosen] + length
        problem = space.problem([(1, o) for o in outputs])
    return problem
