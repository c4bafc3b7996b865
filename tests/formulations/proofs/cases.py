"""Tiny problems of every program with coefficients up to the limits, and an oracle of steps.

Sizes are drawn by their number of bits, so that sums are on both sides of 2^28, 2^30, 2^31, 2^32,
2^40, 2^50 and 2^53. Problems that are refused as too large are drawn again.
"""

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import chain, combinations, product
from math import ceil
from typing import Any, TypeVar

import numpy as np

from formulations.batch_composition import BatchProblem
from formulations.batching import Agent, AgentNetwork, BatchTime, Route, Stage
from formulations.errors import InputError
from formulations.fluid import FluidObjective, FluidProblem, FluidWorker, RequestClass
from formulations.hindsight_latency import Convention, LatencyProblem
from formulations.hindsight_makespan import MakespanObjective, MakespanProblem
from formulations.pausing import PausingProblem
from formulations.second import Second
from formulations.step import Objective, StepProblem
from formulations.thresholds import WaitProblem

#: Most assignments ``(G+1)^N`` of a step.
_MOST = 700
P = TypeVar("P")


def drawn(build: Callable[[np.random.Generator], P], seed: int) -> P:
    """Draw a problem that its data class accepts."""
    rng = np.random.default_rng(seed)
    while True:
        try:
            return build(rng)
        except InputError:
            continue


def size(rng: np.random.Generator, most_bits: float = 39.8) -> int:
    """Draw a size by its bits."""
    return int(2 ** rng.uniform(1, most_bits))


def tokens(rng: np.random.Generator, largest: int, shape: tuple[int, ...]) -> Any:
    """Draw numbers up to ``largest``: uniform, of similar size, of all sizes, or with ties."""
    match int(rng.integers(4)):
        case 0:
            return rng.integers(0, largest + 1, shape)
        case 1:
            return rng.integers(largest // 2, largest + 1, shape)
        case 2:
            return (2 ** rng.uniform(0, np.log2(largest), shape)).astype(np.int64)
        case _:
            return rng.integers(0, 3, shape) * int(rng.integers(0, largest // 2 + 1))


def step(rng: np.random.Generator) -> StepProblem:
    """Draw a step with any options."""
    G, N, steps = int(rng.integers(1, 5)), int(rng.integers(1, 6)), int(rng.choice([1, 1, 2, 3]))
    if (G + 1) ** N > _MOST:
        raise InputError("step", "too many assignments", "draw again")
    largest = size(rng)
    base = np.minimum(tokens(rng, largest, (G, steps)) * int(rng.choice([1, 3])), 10**12)
    contribution = tokens(rng, largest, (N, steps))
    if rng.random() < 0.5:
        contribution = np.minimum(contribution[:, :1] + np.arange(steps), 10**12)
    given: dict[str, Any] = {}
    if rng.random() < 0.5:
        given["token_time"] = rng.integers(1, int(rng.choice([3, 100, 10**5])) + 1, G)
    if rng.random() < 0.3:
        room = base.max(axis=1) + rng.integers(-1, 2 * largest, G)
        given["token_capacity"] = room.clip(0, 10**12)
    if rng.random() < 0.2:
        given["required"] = rng.random(N) < 0.3
    if rng.random() < 0.25:
        given["benefit"] = tokens(rng, largest, (N, G))
    if rng.random() < 0.2:
        given["weights"] = tuple(int(w) for w in rng.choice([0, 1, 3, 10**6, 428571], steps))
    objective = Objective(str(rng.choice([one.value for one in Objective])))
    return StepProblem(rng.integers(0, 4, G), base, contribution, objective=objective, **given)


def least_of_step(problem: StepProblem) -> int | None:
    """Return the least objective, by all assignments; None if there is none."""
    return min((value for value, _ in step_values(problem)), default=None)


def least_second(problem: StepProblem, second: Second) -> int:
    """Return the least second objective among the optima, of a step that has one."""
    pairs = list(step_values(problem))
    best = min(value for value, _ in pairs)
    return min(_second_value(problem, second, a) for value, a in pairs if value == best)


def _second_value(problem: StepProblem, second: Second, chosen: tuple[int | None, ...]) -> int:
    sizes = problem.contribution[:, 0].tolist()
    admitted = [i for i, g in enumerate(chosen) if g is not None]
    if second is Second.AGE:
        return sum(admitted)
    if second is Second.SMALLEST:
        return sum(sizes[i] for i in admitted)
    assert second is Second.GAP
    return _value_of(problem, Objective.GAP, chosen)


def step_values(problem: StepProblem) -> Iterator[tuple[int, tuple[int | None, ...]]]:
    """Yield every assignment and its objective, from the definition alone."""
    G, N = problem.num_workers, problem.num_requests
    slots = problem.capacity.tolist()
    admitted = min(N, sum(slots))
    must = [] if problem.required is None else np.flatnonzero(problem.required).tolist()
    limits = None if problem.token_capacity is None else problem.token_capacity.tolist()
    worth = None if problem.benefit is None else problem.benefit.tolist()
    for chosen in product([None, *range(G)], repeat=N):
        if N - chosen.count(None) != admitted or any(chosen[i] is None for i in must):
            continue
        if any(chosen.count(g) > slots[g] for g in range(G)):
            continue
        loads = _loads(problem, chosen)
        if limits and any(max(row) > limit for row, limit in zip(loads, limits, strict=True)):
            continue
        value = _value_of(problem, problem.objective, chosen)
        if worth is not None:
            value -= sum(worth[i][g] for i, g in enumerate(chosen) if g is not None)
        yield value, chosen


def _loads(problem: StepProblem, chosen: tuple[int | None, ...]) -> list[list[int]]:
    loads: list[list[int]] = problem.base.tolist()
    for row, g in zip(problem.contribution.tolist(), chosen, strict=True):
        if g is not None:
            loads[g] = [a + b for a, b in zip(loads[g], row, strict=True)]
    return loads


def _value_of(problem: StepProblem, objective: Objective, chosen: tuple[int | None, ...]) -> int:
    total = 0
    rates = problem.time_weights.tolist()
    for h, weight in enumerate(problem.weights):
        loads = _loads(problem, chosen)
        times = [rate * row[h] for rate, row in zip(rates, loads, strict=True)]
        if objective is Objective.IMBALANCE:
            total += weight * (len(times) * max(times) - sum(times))
        elif objective is Objective.MAX_LOAD:
            total += weight * max(times)
        else:
            total += weight * (max(times) - min(times))
    return total


def latency(rng: np.random.Generator) -> LatencyProblem:
    """Draw requests for one cache, few of which fit at the same time."""
    n, largest = int(rng.integers(1, 5)), size(rng)
    prompt, output = tokens(rng, largest, (n,)) + 1, rng.integers(1, 4, n)
    memory = int((prompt + output).max()) + int(rng.integers(0, largest + 1))
    convention = Convention(str(rng.choice(["A", "B", "C"])))
    return LatencyProblem(memory, rng.integers(0, 3, n), prompt, output, convention)


def makespan(rng: np.random.Generator) -> MakespanProblem:
    """Draw requests for workers in lockstep."""
    n, largest = int(rng.integers(1, 4)), size(rng, 36)
    prompt, output = tokens(rng, largest, (n,)) + 1, rng.integers(1, 3, n)
    objective = MakespanObjective(str(rng.choice([one.value for one in MakespanObjective])))
    conserves = objective is MakespanObjective.IMBALANCE or bool(rng.random() < 0.4)
    least = int((prompt + output - 1).max())
    workers, memory = int(rng.integers(1, 4)), None
    if not conserves and rng.random() < 0.5:
        memory = least + rng.integers(0, largest + 1, workers)
        # Some requests then fit on the first worker only.
        memory[1:] //= rng.integers(1, 5, workers - 1)
    return MakespanProblem(
        workers,
        int(rng.integers(1, 3)),
        rng.integers(0, 3, n),
        prompt,
        output,
        step_overhead=Fraction(size(rng, 30), int(rng.integers(1, 1000))),
        token_time=Fraction(int(rng.integers(1, 10**5)), int(rng.integers(1, 1000))),
        objective=objective,
        work_conserving=conserves,
        memory=memory,
    )


def pausing(rng: np.random.Generator) -> PausingProblem:
    """Draw a step in which requests may pause."""
    G, N, J = int(rng.integers(1, 4)), int(rng.integers(0, 4)), int(rng.integers(0, 5))
    largest = size(rng, 34)
    worker, load = rng.integers(0, G, J), tokens(rng, largest, (J,)) + 1
    held = np.zeros(G, dtype=np.int64)
    np.add.at(held, worker, load)
    given: dict[str, Any] = {}
    if rng.random() < 0.5:
        given["token_capacity"] = (held + rng.integers(-2, 2 * largest, G)).clip(0)
    if rng.random() < 0.3:
        given["required"] = rng.random(N) < 0.4
    return PausingProblem(
        capacity=rng.integers(0, 3, G),
        worker=worker,
        load=load,
        paused=rng.integers(0, 4, J) * (rng.random(J) < 0.5),
        waiting=tokens(rng, largest, (N,)) + 1,
        max_pauses=int(rng.integers(0, 4)),
        step_overhead=Fraction(int(rng.integers(0, 3 * largest)), int(rng.integers(1, 4))),
        token_time=[Fraction(int(t)) for t in rng.integers(1, 1000, G)],
        **given,
    )


def batch(rng: np.random.Generator) -> BatchProblem:
    """Draw requests for one batch, their tokens worth up to the limits."""
    n, largest = int(rng.integers(1, 6)), size(rng)
    prefill = rng.integers(0, 5, n)
    bonus = tokens(rng, largest, (n,)) * (prefill > 0)
    return BatchProblem(
        prefill,
        rng.integers(1, 4, n),
        int(rng.integers(1, 13)),
        weight=tokens(rng, largest, (n,)),
        finish_bonus=bonus if rng.random() < 0.7 else None,
        mixing=bool(rng.random() < 0.5),
        max_requests=int(rng.integers(1, 6)) if rng.random() < 0.5 else None,
        fewest_requests=bool(rng.random() < 0.5),
    )


def wait(rng: np.random.Generator) -> WaitProblem:
    """Draw classes whose rates make large common denominators."""
    classes = tuple(
        RequestClass(
            Fraction(size(rng, 12), size(rng, 14)), int(rng.integers(1, 50)), int(rng.integers(9))
        )
        for _ in range(int(rng.integers(1, 4)))
    )
    work = sum((kind.rate * kind.work for kind in classes), Fraction(0))
    load = Fraction(int(rng.integers(0, 9)), 10)
    overhead = Fraction(int(rng.integers(1, 12)), int(rng.integers(2, 12)))
    memory = int(rng.choice([100, 3000, 10**9]))
    worker = FluidWorker(overhead, load / work, memory)
    strict, within = bool(rng.random() < 0.5), bool(rng.random() < 0.5)
    return WaitProblem(FluidProblem(classes, (worker,)), strict=strict, within_memory=within)


def ratio(rng: np.random.Generator) -> Fraction:
    """Draw a positive rational of large terms."""
    return Fraction(size(rng, 20), size(rng, 20))


def fluid(rng: np.random.Generator) -> FluidProblem:
    """Draw classes of any sizes, confined to some workers or not, stable or not."""
    G = int(rng.integers(1, 4))
    workers = tuple(
        FluidWorker(
            ratio(rng),
            Fraction(0) if rng.random() < 0.2 else ratio(rng) / size(rng),
            size(rng),
        )
        for _ in range(G)
    )
    kinds = []
    for _ in range(int(rng.integers(1, 5))):
        allowed = tuple(g for g in range(G) if rng.random() < 0.6) or None
        prompt, output = size(rng, 20), int(rng.integers(0, size(rng, 14)))
        kinds.append(RequestClass(ratio(rng), prompt, output, allowed))
    return FluidProblem(tuple(kinds), workers)


def most_worth(problem: FluidProblem, objective: FluidObjective) -> Fraction:
    """Return the largest worth of admitted requests: greedy, as their works are a polymatroid."""
    kinds = problem.classes
    works: dict[int, Fraction] = {}
    for j in sorted(range(len(kinds)), key=lambda j: -_density(kinds[j], objective)):
        room = min(
            _reach(problem, (j, *others)) - sum(works[i] for i in others)
            for others in _subsets(tuple(works))
        )
        works[j] = min(kinds[j].rate * kinds[j].work, room)
    return sum((_density(kinds[j], objective) * y for j, y in works.items()), Fraction(0))


def most_factor(problem: FluidProblem) -> Fraction:
    """Return the largest factor on all rates: of each set of classes, what its workers can do."""
    kinds = problem.classes
    return min(
        _reach(problem, some) / sum(kinds[j].rate * kinds[j].work for j in some)
        for some in _subsets(tuple(range(len(kinds))))
        if some
    )


def _density(kind: RequestClass, objective: FluidObjective) -> Fraction:
    return Fraction(objective.worth(kind), kind.work)


def _subsets(items: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    return chain.from_iterable(combinations(items, n) for n in range(len(items) + 1))


def _reach(problem: FluidProblem, some: tuple[int, ...]) -> Fraction:
    """Return the work that all workers of these classes can do."""
    everywhere = range(len(problem.workers))
    found = {g for j in some for g in (problem.classes[j].workers or everywhere)}
    speeds = ((w.d0, w.d1, w.memory) for w in (problem.workers[g] for g in found))
    return sum((memory / (d0 + d1 * memory) for d0, d1, memory in speeds), Fraction(0))


def network(rng: np.random.Generator) -> AgentNetwork:
    """Draw agents that tasks are routed between, cycles included."""
    names = [f"a{j}" for j in range(int(rng.integers(1, 4)))]
    agents = [
        Agent(name, size(rng, 30), BatchTime(ratio(rng), ratio(rng), 0), int(rng.integers(1, 4)))
        for name in names
    ]
    count = int(rng.integers(1, 5))
    stages = [
        Stage("r", str(rng.choice(names)), 1 + ratio(rng), 1 + ratio(rng), ratio(rng), f"s{k}")
        for k in range(count)
    ]
    routes = []
    for source in stages:
        weights = [int(rng.integers(0, 3)) and size(rng, 20) for _ in stages]
        total = sum(weights) + size(rng, 20)
        for target, weight in zip(stages, weights, strict=True):
            if weight:
                routes.append(Route(source.name, target.name, Fraction(weight, total)))
    return AgentNetwork(tuple(agents), tuple(stages), tuple(routes))


def highest_load(found: AgentNetwork) -> Fraction:
    """Return the load of the fullest agent: slots of its stages by elimination, over its slots."""
    names = [stage.name for stage in found.stages]
    n = len(names)
    rows = [[Fraction(i == k) for k in range(n)] + [found.stages[i].rate] for i in range(n)]
    for route in found.routes:
        rows[names.index(route.target)][names.index(route.source)] -= route.probability
    for k in range(n):
        pivot = next(i for i in range(k, n) if rows[i][k])
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [x / rows[k][k] for x in rows[k]]
        for i in set(range(n)) - {k}:
            rows[i] = [a - rows[i][k] * b for a, b in zip(rows[i], rows[k], strict=True)]
    work: dict[str, Fraction] = {agent.name: Fraction(0) for agent in found.agents}
    for row, stage in zip(rows, found.stages, strict=True):
        work[stage.agent] += row[n] * (stage.prefill + stage.decode)
    slots = {
        a.name: ceil(a.batch_time.overhead + a.batch_time.per_token * a.budget)
        for a in found.agents
    }
    return max(work[a.name] * slots[a.name] / (a.budget * a.engines) for a in found.agents)
