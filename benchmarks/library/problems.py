"""Make the problems of the library. Existing problems are frozen and never replaced.

Step problems are states from runs under different policies, in variants. A state is recorded with
the true lengths of all requests. Every variant is derived from it: window, known lengths,
discount, memory, speeds, required requests, empty slots, objective. The other problems are
hindsight programs, fluid programs, thresholds, and the smallest instances found by searches for
the worst case of a policy (study 41).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from benchmarks.requests import SYNTHETIC, draw
from benchmarks.step_harvest import EXTRAS, Size, StepCollector, with_extra
from bfio.decode.policy_registry import choose
from bfio.decode.state import DecodeState
from bfio.kvcache.lower_bounds import ArrivalModel
from bfio.library.kind import digest_of
from bfio.library.store import Entry, entries, write_index, write_problem
from bfio.workloads.generators import resample
from bfio.workloads.trace_file import read_trace
from bfio.workloads.workload import Workload
from bfio.worst_cases.barrier import BarrierSpace, Criterion
from bfio.worst_cases.cache import CacheSpace
from formulations.arrays import IntArray
from formulations.errors import InputError
from formulations.fluid import FluidProblem, FluidWorker, RequestClass
from formulations.hindsight_latency import Convention, LatencyProblem
from formulations.hindsight_makespan import MakespanObjective, MakespanProblem
from formulations.step import StepProblem
from formulations.step.problem import geometric_weights

#: Number of requests drawn per slot.
_TURNOVERS = 40


@dataclass(frozen=True)
class StepRun:
    """A simulated run whose states give step problems.

    Parameters
    ----------
    size : Size
        Workers, slots, pool.
    workload : str
        ``synthetic-MEAN`` (lognormal prompts, geometric outputs), or the name of a trace source.
    policy : str
        Policy of the run.
    seed : int
        Seed of requests and run.
    moments : tuple of str
        Moments of states: ``cold``, ``w1``, ``w2``.
    variants : tuple of str
        Names in `VARIANTS` for the last moment. Other moments get only a few plain ones.
    """

    size: Size
    workload: str
    policy: str
    seed: int
    moments: tuple[str, ...]
    variants: tuple[str, ...]


@dataclass(frozen=True)
class Variant:
    """A way to derive a problem from a state.

    Parameters
    ----------
    family : str
        Family in tables.
    look_ahead : int
        ``H``.
    knows : str
        Requests with known ends in the window: ``none``, ``active`` or ``all``.
    discount : str
        Discount per step of the window.
    extra : str
        ``memory``, ``speeds``, ``required``, ``empty`` (half of the requests wait), ``max-load``
        or ``gap``; empty for none.
    """

    family: str
    look_ahead: int
    knows: str = "none"
    discount: str = "1"
    extra: str = ""

    def about(self) -> str:
        """Return a description of the variant as text."""
        known = {
            "none": "no end known",
            "active": "ends of active requests known",
            "all": "all ends known",
        }
        words = [f"H = {self.look_ahead}"] + [known[self.knows]] * (self.look_ahead > 0)
        words += [f"discount {self.discount}"] * (self.discount != "1")
        return ", ".join([*words, *([EXTRAS[self.extra]] if self.extra else [])])


_PLAIN = {
    "h0": Variant("H = 0", 0),
    "h20-none": Variant("H = 20, none", 20),
    "h20-active": Variant("H = 20, active", 20, "active"),
    "h20-all": Variant("H = 20, all", 20, "all"),
    "h80-active": Variant("H = 80, active", 80, "active"),
    "h80-all": Variant("H = 80, all", 80, "all"),
}
_MORE = {
    "h20-active-d86": Variant("H = 20, discount", 20, "active", "43/50"),
    "h80-active-d86": Variant("H = 80, discount", 80, "active", "43/50"),
    **{
        f"h{look_ahead}-{extra}": Variant(
            f"H = {look_ahead}, {extra}",
            look_ahead,
            "active" if look_ahead else "none",
            extra=extra,
        )
        for extra in EXTRAS
        for look_ahead in (0, 20)
    },
}
VARIANTS = _PLAIN | _MORE
PLAIN, EVERY = tuple(_PLAIN), tuple(VARIANTS)
_HARD = ("h20-active-d86", "h20-memory", "h20-speeds")
#: Variants for moments other than the last.
_FEW = ("h0", "h20-active", "h20-all")


RUNS = tuple(
    StepRun(Size.parse(size), workload, policy, seed, tuple(moments.split()), variants)
    for size, workload, policy, seed, moments, variants in (
        ("2x4-r6", "synthetic-4", "br-0", 1, "w1", EVERY),
        ("4x8-r16", "synthetic-8", "fcfs", 2, "cold w1", EVERY),
        ("8x24-r64", "azure-code", "br-h", 3, "cold w1", PLAIN),
        ("8x24-r64", "synthetic-30", "jsq-tokens", 4, "cold w1", PLAIN),
        ("16x72-r64", "azure-conv", "br-0", 5, "cold w2 w1", EVERY),
        ("16x72-r64", "burstgpt", "br-h", 6, "cold w2 w1", PLAIN),
        ("16x72-r64", "mooncake", "fcfs", 7, "cold w2 w1", PLAIN),
        ("32x72-r128", "synthetic-300", "br-0", 8, "w3 w2 w1", EVERY),
        ("32x72-r128", "synthetic-100", "br-0", 9, "cold w4 w3 w2 w1", EVERY),
        ("32x72-r128", "synthetic-50", "bf-io", 10, "w3 w2 w1", PLAIN),
        ("32x72-r128", "azure-conv", "br-h", 11, "w2 w1", PLAIN),
        ("64x128-r256", "synthetic-300", "br-0", 12, "cold w3 w2 w1", (*PLAIN, *_HARD)),
        ("64x128-r256", "synthetic-100", "jsq-tokens", 13, "w2 w1", PLAIN),
    )
)
#: Trace file of each source.
FILES = {
    "azure-code": "azure_code_2023.csv.gz",
    "azure-conv": "azure_conv_2023.csv.gz",
    "burstgpt": "bfio_burstgpt_8000_untimed.csv.gz",
    "mooncake": "mooncake_conversation.csv.gz",
}


def step_problems(run: StepRun, folder: Path) -> Iterator[tuple[str, str, str, StepProblem]]:
    """Yield name, family, description and data of each problem of a run."""
    states = _states(run, folder)
    for moment in run.moments:
        last = moment == run.moments[-1]
        for name in run.variants if last else _FEW:
            variant = VARIANTS[name]
            if moment == "cold" and variant.look_ahead == 0 and run.size.workers == 64:
                continue
            place = f"{run.size.workers}x{run.size.slots}-{run.workload}-{moment}"
            about = (
                f"{'first' if moment == 'cold' else 'steady'} step of a run of {run.policy}, "
                f"pool {run.size.pool}; {variant.about()}"
            )
            problem = varied(states[moment], variant, run.seed)
            yield f"step-{place}-{name}", variant.family, about, problem


def _states(run: StepRun, folder: Path) -> dict[str, DecodeState]:
    """Return the states of a run, by moment."""
    warm = max([1, *(int(moment[1:]) for moment in run.moments if moment[0] == "w")])
    requests = _requests(run, folder, run.size.requests(_TURNOVERS))
    mean = round(float(requests.output_tokens.mean()))
    collector, policy = StepCollector(warm, mean), choose(run.policy, {}).make()
    known = {"projection": "growing", "predictor": "oracle", "window_knows": "all"}

    def decide(state: DecodeState) -> Sequence[int | None]:
        # Wrapped, so that the states have a window even if the policy does not use one.
        return policy(state)

    if not collector.collect(requests, decide, run.size, seed=run.seed, **known):
        what = "has too few requests for its states"
        raise InputError(f"run {run.workload}", what, "use more requests")
    states = {f"w{k + 1}": state for k, state in enumerate(collector.warm)}
    return states | {"cold": collector.cold[0]}


def _requests(run: StepRun, folder: Path, number: int) -> Workload:
    name, _, mean = run.workload.partition("-")
    if name == "synthetic":
        return draw(SYNTHETIC, number, int(mean), run.seed, folder)
    rng = np.random.default_rng(run.seed)
    return resample(read_trace(folder / FILES[run.workload]), number, rng=rng)


def varied(state: DecodeState, variant: Variant, seed: int) -> StepProblem:
    """Return the problem that a variant derives from a state with all ends known."""
    base, contribution = _known(state, variant)
    weights, scale = geometric_weights(Fraction(variant.discount), variant.look_ahead + 1)
    problem = StepProblem(state.free_slots, base, contribution, weights, scale)
    return with_extra(problem, variant.extra, seed)


def _known(state: DecodeState, variant: Variant) -> tuple[IntArray, IntArray]:
    """Return loads and contributions over the window, with the ends known to the variant."""
    columns = variant.look_ahead + 1
    growth = np.arange(columns)
    base, contribution = state.projected_loads[:, :columns], state.contributions[:, :columns]
    if variant.knows != "all":
        contribution = state.sizes[:, None] + growth
    if variant.knows == "none":
        base = state.loads[:, None] + state.running[:, None] * growth
    return base, contribution


FAMILY = "worst cases"
#: Memory, convention, outputs for Algorithm 1; all prompts are 1, all arrivals 0.
_ALGORITHM_1 = (
    (6, "A", (2, 2, 3, 3)), (6, "A", (2, 2, 3, 4, 4)), (6, "A", (1, 1, 1, 2, 2, 2)),
    (6, "A", (1, 1, 1, 2, 2, 4, 4)), (6, "B", (3, 3, 4, 4)), (6, "B", (3, 3, 4, 5, 5)),
    (6, "B", (2, 2, 2, 3, 3, 3)), (6, "B", (2, 2, 2, 3, 3, 5, 5)), (5, "C", (1, 1, 3, 3)),
    (5, "C", (1, 1, 3, 3, 3)), (7, "C", (1, 1, 1, 3, 3, 3)), (7, "C", (1, 1, 1, 2, 2, 4, 4)),
)  # fmt: skip
#: Memory, convention, pairs of arrival and output for MC-SF; all prompts are 1.
_MC_SF = (
    (8, "C", ((0, 7), (1, 3))), (8, "C", ((0, 7), (1, 3), (5, 1))),
    (8, "A", ((0, 7), (1, 3), (5, 1))), (8, "B", ((0, 8), (1, 4), (5, 2))),
)  # fmt: skip


#: Policy, workers, criterion, pairs of prompt and output; one slot per worker, all arrivals 0.
_BARRIER = (
    ("fcfs", 2, "peaks", ((1, 1), (2, 1), (1, 2))),
    ("fcfs", 2, "peaks", ((1, 1), (3, 2), (1, 1), (3, 2))),
    ("fcfs", 3, "peaks", ((1, 1), (1, 2), (2, 1), (1, 2))),
    ("br-0", 2, "peaks", ((1, 1), (3, 1), (3, 1))),
    ("br-0", 2, "peaks", ((1, 1), (1, 3), (1, 1), (1, 3))),
    ("br-0", 3, "peaks", ((1, 1), (1, 1), (1, 2), (1, 2))),
    ("bf-io", 2, "peaks", ((1, 3), (2, 1), (2, 2))),
    ("br-h-known", 2, "peaks", ((1, 1), (1, 2), (2, 1))),
    ("jsq-bound", 2, "peaks", ((1, 1), (2, 3), (1, 1), (2, 3))),
    ("jsq-bound", 3, "peaks", ((1, 2), (1, 1), (2, 1), (1, 2))),
    ("fcfs", 2, "steps", ((1, 1), (1, 1), (1, 2))),
    ("fcfs", 3, "steps", ((1, 1),) * 6 + ((1, 3),)),
)


def worst_problems() -> Iterator[tuple[str, str, str, str, str, dict[str, Any]]]:
    """Yield kind, name, family, description, source and document of each worst case."""
    listed = [("algorithm-1", m, c, [(0, o) for o in outputs]) for m, c, outputs in _ALGORITHM_1]
    listed += [("mc-sf", m, c, list(rows)) for m, c, rows in _MC_SF]
    for policy, memory, convention, rows in listed:
        space = CacheSpace(len(rows), memory, convention=Convention(convention))
        name = f"latency-worst-{policy}-n{len(rows)}-{convention.lower()}"
        about = f"worst for {policy} of its size, memory {memory}, convention {convention}"
        document = space.problem(memory, rows).to_mapping()
        yield "latency", name, FAMILY, about, "synthetic", document
    for policy, workers, criterion, requests in _BARRIER:
        barrier = BarrierSpace(len(requests), workers, criterion=Criterion(criterion))
        name = f"makespan-worst-{policy}-{workers}x1-n{len(requests)}-{criterion}"
        about = f"worst for {policy} of its size, {workers} workers of 1 slot, {criterion}"
        document = barrier.problem(requests).to_mapping()
        yield "makespan", name, FAMILY, about, "synthetic", document


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
        # The first requests in coarse units, with one arrival in every second round.
        prompts, outputs = _lengths(folder, source, count, (prompt, output))
        prompts = np.minimum(prompts, memory // 2)
        outputs = np.minimum(outputs, memory - prompts)
        problem = LatencyProblem(memory, np.arange(count) // 2, prompts, outputs)
        name = f"latency-{source}-n{count}-m{memory}"
        about = f"first {count} requests, {prompt} and {output} tokens to a unit, memory {memory}"
        yield "latency", name, "traces", about, source, problem.to_mapping()


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
    """Return fluid classes at quantiles of a trace, with a load above the workers' capacity."""
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


def build(folder: Path, traces: Path) -> tuple[int, list[str]]:
    """Write the missing problems of the library.

    Returns
    -------
    tuple of (int, list of str)
        Number of new problems, and names of old ones that would come out differently today because
        policies have changed. The old problems are kept.
    """
    known = {e.name: e for e in entries(folder)} if (folder / "index.json").exists() else {}
    made, otherwise = dict(known), []
    order: dict[str, None] = {}
    for kind, name, family, about, source, document in _problems(traces):
        entry = Entry(name, kind, family, about, source, digest_of(document), folder)
        order[name] = None
        if name not in known:
            # If no waiting request ends in the window, known ends change nothing; skip the
            # duplicate.
            if any((e.kind_name, e.digest) == (kind, entry.digest) for e in made.values()):
                continue
            made[name] = entry
            write_problem(folder, entry, document)
        elif entry.digest != known[name].digest:
            otherwise.append(name)
    write_index(folder, [made[name] for name in order | dict.fromkeys(known) if name in made])
    return len(made) - len(known), otherwise


def _problems(traces: Path) -> Iterator[Made]:
    for run in RUNS:
        source = "synthetic" if run.workload.startswith("synthetic") else run.workload
        for name, family, about, problem in step_problems(run, traces):
            yield "step", name, family, about, source, problem.to_mapping()
    yield from _latency(traces)
    yield from _makespan(traces)
    yield from _fluid(traces)
    yield from _thresholds(traces)
    yield from worst_problems()
