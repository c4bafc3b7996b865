"""Step problems of the library: states from runs under different policies, in variants.

A state is recorded with the true lengths of all requests. Every variant is derived from it:
window, known lengths, discount, memory, speeds, required requests, empty slots, objective.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

from benchmarks.requests import SYNTHETIC, draw
from benchmarks.step_extras import EXTRAS, with_extra
from benchmarks.step_harvest import LONGEST, Size, StepCollector
from bfio.decode.cluster import Cluster
from bfio.decode.policy_registry import choose
from bfio.decode.simulation import simulate
from bfio.decode.state import DecodeState
from bfio.workloads.generators import resample
from bfio.workloads.reader import read_trace
from bfio.workloads.workload import Workload
from formulations.arrays import IntArray
from formulations.errors import InputError
from formulations.step import StepProblem
from formulations.step.problem import geometric_weights

#: Number of requests drawn per slot.
_TURNOVERS = 40


@dataclass(frozen=True)
class StepRun:
    """A run that gives states for problems.

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
        """Return a description."""
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


def _run(
    size: str,
    workload: str,
    policy: str,
    seed: int,
    moments: str = "w1",
    variants: tuple[str, ...] = PLAIN,
) -> StepRun:
    return StepRun(Size.parse(size), workload, policy, seed, tuple(moments.split()), variants)


RUNS = (
    _run("2x4-r6", "synthetic-4", "br-0", 1, variants=EVERY),
    _run("4x8-r16", "synthetic-8", "fcfs", 2, "cold w1", EVERY),
    _run("8x24-r64", "azure-code", "br-h", 3, "cold w1"),
    _run("8x24-r64", "synthetic-30", "jsq-tokens", 4, "cold w1"),
    _run("16x72-r64", "azure-conv", "br-0", 5, "cold w2 w1", EVERY),
    _run("16x72-r64", "burstgpt", "br-h", 6, "cold w2 w1"),
    _run("16x72-r64", "mooncake", "fcfs", 7, "cold w2 w1"),
    _run("32x72-r128", "synthetic-300", "br-0", 8, "w3 w2 w1", EVERY),
    _run("32x72-r128", "synthetic-100", "br-0", 9, "cold w4 w3 w2 w1", EVERY),
    _run("32x72-r128", "synthetic-50", "bf-io", 10, "w3 w2 w1"),
    _run("32x72-r128", "azure-conv", "br-h", 11, "w2 w1"),
    _run("64x128-r256", "synthetic-300", "br-0", 12, "cold w3 w2 w1", (*PLAIN, *_HARD)),
    _run("64x128-r256", "synthetic-100", "jsq-tokens", 13, "w2 w1"),
)
#: Trace file of each source.
FILES = {
    "azure-code": "azure_code_2023.csv.gz",
    "azure-conv": "azure_conv_2023.csv.gz",
    "burstgpt": "bfio_burstgpt_8000_untimed.csv.gz",
    "mooncake": "mooncake_conversation.csv.gz",
}


def step_problems(run: StepRun, folder: Path) -> Iterator[tuple[str, str, str, StepProblem]]:
    """Yield name, family, description and data of the problems of a run."""
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
    """Return the states of a run by moment."""
    warm = max([1, *(int(moment[1:]) for moment in run.moments if moment[0] == "w")])
    size = run.size
    requests = _requests(run, folder, size.workers * size.slots * _TURNOVERS + 8 * size.pool)
    mean = round(float(requests.output_tokens.mean()))
    collector = StepCollector(warm, mean)
    decide = choose(run.policy, {}).make()
    simulate(
        requests,
        # Wrapped, so that the states have a window even if the policy does not use one.
        lambda state: decide(state),
        Cluster(size.workers, size.slots),
        pool=size.pool,
        horizon=LONGEST,
        projection="growing",
        predictor="oracle",
        window_knows="all",
        seed=run.seed,
        observers=[collector],
        keep_trajectory=False,
        stop=lambda: collector.is_done,
    )
    if not collector.is_done:
        raise InputError(f"run {run.workload}", "too few requests for its states", "draw more")
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
    """Return loads and contributions over the window, with the ends that the variant knows."""
    columns = variant.look_ahead + 1
    growth = np.arange(columns)
    base, contribution = state.projected_loads[:, :columns], state.contributions[:, :columns]
    if variant.knows != "all":
        contribution = state.sizes[:, None] + growth
    if variant.knows == "none":
        base = state.loads[:, None] + state.running[:, None] * growth
    return base, contribution
