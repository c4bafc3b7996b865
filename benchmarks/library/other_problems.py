"""Problems of the library other than steps: hindsight, fluid programs, thresholds, worst cases."""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from benchmarks.library.step_problems import FILES
from benchmarks.library.worst_problems import worst_problems
from bfio.kvcache.lower_bounds import ArrivalModel
from bfio.workloads.reader import read_trace
from formulations.fluid import FluidProblem, FluidWorker, RequestClass
from formulations.hindsight_latency import Convention, LatencyProblem
from formulations.hindsight_makespan import MakespanObjective, MakespanProblem

#: Kind, name, family, description, source and document of a problem.
Made: TypeAlias = tuple[str, str, str, str, str, dict[str, Any]]

#: Requests, memory, convention; all arrive at round 0, as in the KV-cache paper's first
#: simulation.
_AT_ONCE = (
    (6, 20, "C"), (10, 30, "C"), (15, 30, "A"), (20, 40, "B"), (20, 40, "C"), (30, 40, "C"),
    (40, 50, "C"), (60, 50, "C"), (40, 100, "C"), (80, 100, "C"), (100, 200, "C"),
)  # fmt: skip
#: Rounds with arrivals, mean per round, memory; as in the paper's second simulation.
_OVER_TIME = ((10, 1.0, 30), (20, 1.0, 40), (40, 1.0, 50), (60, 1.0, 50), (60, 0.5, 50),
              (60, 1.5, 40), (100, 1.0, 60))  # fmt: skip
#: Source, requests, memory, prompt tokens per unit, output tokens per unit.
_TRACED_LATENCY = (
    ("azure-conv", 20, 60, 128, 32), ("azure-conv", 40, 60, 128, 32),
    ("azure-conv", 80, 120, 64, 32), ("azure-code", 40, 80, 128, 4),
    ("mooncake", 40, 120, 1024, 32), ("mooncake", 80, 120, 1024, 32),
)  # fmt: skip
#: Workers, slots, requests, longest output, last arrival.
_MACHINES = (
    (2, 1, 6, 6, 0), (2, 2, 10, 6, 0), (2, 2, 14, 8, 6), (3, 2, 12, 6, 0), (2, 3, 16, 8, 0),
    (3, 1, 16, 8, 8), (4, 2, 24, 8, 0), (4, 2, 24, 8, 10), (2, 8, 40, 8, 0), (8, 2, 48, 8, 0),
)  # fmt: skip
#: Source, workers, slots, requests, prompt tokens per unit, output tokens per unit.
_TRACED_MAKESPAN = (("azure-conv", 3, 2, 18, 128, 48), ("mooncake", 4, 2, 24, 1024, 64))
_SYNTHETIC = "synthetic"


def other_problems(folder: Path) -> Iterator[Made]:
    """Yield all these problems, in the order of the library."""
    yield from _latency(folder)
    yield from _makespan(folder)
    yield from _fluid(folder)
    yield from _thresholds(folder)
    yield from worst_problems()


def _latency(folder: Path) -> Iterator[Made]:
    for count, memory, convention in _AT_ONCE:
        model = ArrivalModel(1, count=(count, count), memory=(memory, memory))
        drawn = model.draw(np.random.default_rng(count + memory))
        problem = replace(drawn, convention=Convention(convention))
        name = f"latency-at-once-n{count}-m{memory}-{convention.lower()}"
        about = f"{count} requests at round 0, memory {memory}, convention {convention}"
        yield "latency", name, "at once", about, _SYNTHETIC, problem.to_mapping()
    for rounds, rate, memory in _OVER_TIME:
        model = ArrivalModel(2, count=(rounds, rounds), memory=(memory, memory), rate=(rate, rate))
        problem = model.draw(np.random.default_rng(rounds + memory))
        name = f"latency-poisson-t{rounds}-r{rate}-m{memory}".replace(".", "")
        about = f"{problem.num_requests} Poisson arrivals in {rounds} rounds, memory {memory}"
        yield "latency", name, "Poisson arrivals", about, _SYNTHETIC, problem.to_mapping()
    for source, count, memory, prompt, output in _TRACED_LATENCY:
        problem = _traced_latency(folder, source, count, memory, (prompt, output))
        name = f"latency-{source}-n{count}-m{memory}"
        about = f"first {count} requests, {prompt} and {output} tokens to a unit, memory {memory}"
        yield "latency", name, "traces", about, source, problem.to_mapping()


def _traced_latency(
    folder: Path, source: str, count: int, memory: int, units: tuple[int, int]
) -> LatencyProblem:
    """Return the first requests in coarse units, with one arrival in every second round."""
    prompt, output = _lengths(folder, source, count, units)
    prompt = np.minimum(prompt, memory // 2)
    return LatencyProblem(
        memory=memory,
        arrival=np.arange(count) // 2,
        prompt=prompt,
        output=np.minimum(output, memory - prompt),
    )


def _lengths(folder: Path, source: str, count: int, units: tuple[int, int]) -> Any:
    trace = read_trace(folder / FILES[source], limit=count)
    columns = (trace.prompt_tokens, trace.output_tokens)
    return tuple(-(-column // unit) for column, unit in zip(columns, units, strict=True))


def _makespan(folder: Path) -> Iterator[Made]:
    for workers, slots, count, longest, last in _MACHINES:
        rng = np.random.default_rng(workers * 1000 + slots * 100 + count)
        drawn = MakespanProblem(
            workers=workers,
            slots=slots,
            arrival=np.sort(rng.integers(0, last + 1, count)),
            prompt=rng.integers(1, 13, count),
            output=rng.integers(1, longest + 1, count),
        )
        name = f"{workers}x{slots}-n{count}" + f"-a{last}" * (last > 0)
        about = f"{workers} workers of {slots} slots, {count} requests"
        yield from _with_objectives(drawn, name, about, _SYNTHETIC)
    for source, workers, slots, count, *units in _TRACED_MAKESPAN:
        prompt, output = _lengths(folder, source, count, (units[0], units[1]))
        traced = MakespanProblem(workers, slots, np.zeros(count, dtype=np.int64), prompt, output)
        name = f"{workers}x{slots}-{source}-n{count}"
        about = f"{workers} workers of {slots} slots, first {count} requests in coarse units"
        yield from _with_objectives(traced, name, about, source)


def _with_objectives(
    problem: MakespanProblem, name: str, about: str, source: str
) -> Iterator[Made]:
    for objective in MakespanObjective:
        # With None, work conservation follows from the objective.
        posed = replace(problem, objective=objective, work_conserving=None)
        full = f"makespan-{name}-{objective.value}"
        text = f"{about}, {objective.value}"
        yield "makespan", full, objective.value, text, source, posed.to_mapping()


#: Source, classes by prompt and output, workers, whether classes are bound to workers.
_LOADS = (
    ("azure-conv", 3, 3, 1, False), ("azure-conv", 4, 4, 4, True), ("azure-code", 3, 3, 2, True),
    ("mooncake", 3, 4, 3, False), ("mooncake", 4, 4, 8, True),
)  # fmt: skip
_FLUID_KINDS = ("fluid-stages", "fluid-decode", "fluid-margin")


def _fluid(folder: Path) -> Iterator[Made]:
    for seed, (source, prompts, outputs, workers, is_bound) in enumerate(_LOADS):
        problem = _load(folder, source, (prompts, outputs), workers, seed if is_bound else None)
        count = len(problem.classes)
        about = f"{count} classes on {workers} workers" + ", classes bound to some" * is_bound
        for kind in _FLUID_KINDS:
            name = f"{kind}-{source}-{count}x{workers}"
            yield kind, name, "fluid", about, source, problem.to_mapping()


def _load(
    folder: Path, source: str, grid: tuple[int, int], workers: int, seed: int | None
) -> FluidProblem:
    """Return classes at quantiles of a trace, with a load above the capacity of the workers."""
    pairs = _classes(folder, source, grid)
    rng = np.random.default_rng(seed)
    machines = tuple(
        FluidWorker(Fraction(1, 80 + 20 * g), Fraction(1, 10_000_000), 40_000 + 10_000 * g)
        for g in range(workers)
    )
    places = [
        None if seed is None else tuple(np.flatnonzero(rng.random(workers) < 0.6).tolist()) or (0,)
        for _ in pairs
    ]
    # One request per second and class for each worker exceeds the capacity of every worker above.
    return FluidProblem(
        tuple(
            RequestClass(Fraction(workers * (1 + j % 3), 2), prompt, output, place)
            for j, ((prompt, output), place) in enumerate(zip(pairs, places, strict=True))
        ),
        machines,
    )


def _classes(folder: Path, source: str, grid: tuple[int, int]) -> list[tuple[int, int]]:
    trace = read_trace(folder / FILES[source])
    middles = [(2 * np.arange(parts) + 1) / (2 * parts) for parts in grid]
    prompts = np.quantile(trace.prompt_tokens, middles[0], method="lower").tolist()
    outputs = np.quantile(trace.output_tokens, middles[1], method="lower").tolist()
    return [(int(s), int(o)) for s in sorted(set(prompts)) for o in sorted(set(outputs))]


#: Source, classes by prompt and output, load as a share of the largest sustainable one.
_THRESHOLDS = (
    ("azure-code", 1, 3, Fraction(1, 2)), ("azure-conv", 3, 3, Fraction(9, 10)),
    ("mooncake", 2, 4, Fraction(99, 100)), ("azure-conv", 4, 6, Fraction(199, 200)),
)  # fmt: skip


def _thresholds(folder: Path) -> Iterator[Made]:
    for source, prompts, outputs, load in _THRESHOLDS:
        pairs = _classes(folder, source, (prompts, outputs))
        worker = FluidWorker(Fraction(1, 100), Fraction(1, 10_000_000), 10**6)
        shares = [Fraction(1 + j % 3) for j in range(len(pairs))]
        classes = [RequestClass(x, s, o) for x, (s, o) in zip(shares, pairs, strict=True)]
        work = sum((kind.rate * kind.work for kind in classes), Fraction(0))
        factor = load / (worker.d1 * work)
        problem = FluidProblem(
            tuple(replace(kind, rate=kind.rate * factor) for kind in classes), (worker,)
        )
        about = f"{len(pairs)} classes, load {load}"
        for kind in ("wait", "nested-wait"):
            name = f"{kind}-{source}-{len(pairs)}"
            yield kind, name, "thresholds", about, source, problem.to_mapping()
