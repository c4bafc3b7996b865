"""Named synthetic workloads: what ``--synthetic NAME`` draws."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from bfio.workloads.adversarial import jsq_bad, round_robin_bad
from bfio.workloads.arrivals import ArrivalProcess, GammaRenewal, OnOff, Poisson
from bfio.workloads.generators import generate
from bfio.workloads.lengths import Geometric, Homogeneous, LengthDistribution, Lognormal, Uniform
from bfio.workloads.overload import overloaded_steps
from bfio.workloads.sessions import sessions
from bfio.workloads.workload import Workload
from formulations.arrays import FloatArray, IntArray, integer
from formulations.errors import InputError, use_one_of
from formulations.keywords import known_keywords

#: The defaults of `bfio simulate`: workers and slots that the adversarial names aim at.
_WORKERS = 16
_SLOTS = 72
#: Most heavy requests of ``jsq-bad``: those its default lengths outlive.
_JSQ_ROUNDS = 16
#: Sides of tiles, work of a quantum of a tile of the smallest side (in the place of tokens), and
#: the spread of what contention does to the time of a job.
_TILE_SIDES, _TILE_WORK, _CONTENTION = (128, 256, 512), 100, 0.3
#: Cells of a block that is not refined, most refinements, and median steps that it stays.
_BLOCK_CELLS, _MOST_REFINED, _BLOCK_LIFE = 256, 4, 60
#: Longest life of a job [steps], and jobs that arrive per second.
_LONGEST_LIFE, _JOBS_PER_S = 100_000, 300

_Draw: TypeAlias = Callable[[int, np.random.Generator], Workload]


@dataclass(frozen=True)
class _Recipe:
    description: str
    draw: _Draw


@known_keywords
def synthetic(name: str, num_requests: int, seed: int) -> Workload:
    """Draw the named workload; equal arguments give equal workloads.

    Parameters
    ----------
    name : str
        One of `synthetic_names`.
    num_requests : int
        Number of requests, >= 1 (``jsq-bad`` ends after its last round and may give fewer).
    seed : int
        Seed, >= 0.

    Raises
    ------
    InputError
        If the name is unknown or a number is out of range.
    """
    integer(num_requests, "requests", minimum=1)
    integer(seed, "seed")
    if name not in _RECIPES:
        raise InputError("synthetic", f"unknown workload {name!r}", use_one_of(name, _RECIPES))
    workload = _RECIPES[name].draw(num_requests, np.random.default_rng(seed))
    provenance = {**workload.provenance, "synthetic": name, "seed": seed}
    return replace(workload, name=name, provenance=provenance)


def synthetic_names() -> Mapping[str, str]:
    """Return the names `synthetic` accepts, each with a one-line description."""
    return MappingProxyType({name: recipe.description for name, recipe in _RECIPES.items()})


def _independent(
    prompts: LengthDistribution, outputs: LengthDistribution, arrivals: ArrivalProcess
) -> _Draw:
    def draw(num_requests: int, rng: np.random.Generator) -> Workload:
        return generate(num_requests, prompts, outputs, arrivals, rng=rng)

    return draw


def _overloaded(num_requests: int, rng: np.random.Generator) -> Workload:
    drawn = generate(num_requests, Uniform(1, 1000), Geometric(200), rng=rng)
    certified = overloaded_steps(drawn, _WORKERS * _SLOTS)
    provenance = {
        **drawn.provenance, "total_slots": _WORKERS * _SLOTS, "overloaded_steps": certified,
    }  # fmt: skip
    return Workload(drawn.prompt_tokens, drawn.output_tokens, None, "overloaded", provenance)


def _jsq_bad(num_requests: int, rng: np.random.Generator) -> Workload:
    del rng
    return jsq_bad(_WORKERS, _JSQ_ROUNDS).head(num_requests)


def _round_robin_bad(num_requests: int, rng: np.random.Generator) -> Workload:
    del rng
    return round_robin_bad(_WORKERS, -(-num_requests // _WORKERS)).head(num_requests)


def _tiles(num_requests: int, rng: np.random.Generator) -> Workload:
    """Panels of blocked Cholesky factorisations: BF-IO, section 7.2, first example.

    A job is one panel k of a matrix of T x T tiles; it keeps its worker for a quantum per tile of
    its column, T - k + 1 by design, stretched by contention and cache effects that are not known
    before (a lognormal factor of median 1). Its load is the work of a quantum, which is stable:
    proportional to the cube of the tile's side. T and side are drawn anew for each matrix.
    """
    columns: list[IntArray] = []
    loads: list[IntArray] = []
    while sum(map(len, columns)) < num_requests:
        tiles, side = int(rng.integers(8, 65)), int(rng.choice(_TILE_SIDES))
        columns.append(np.arange(tiles, 0, -1))
        loads.append(np.full(tiles, _TILE_WORK * (side // _TILE_SIDES[0]) ** 3))
    quanta = np.concatenate(columns)[:num_requests]
    stretch = rng.lognormal(0.0, _CONTENTION, num_requests)
    return _timed(np.concatenate(loads)[:num_requests], quanta * stretch, "tiles", rng)


def _mesh(num_requests: int, rng: np.random.Generator) -> Workload:
    """Blocks of an adaptive mesh: BF-IO, section 7.2, second example.

    A block of 16 x 16 cells is refined l = 0..4 times when it begins, half as often each time,
    and then has 4^l as many. How long it stays is heavy-tailed, as it hangs on the solution that
    evolves. Refining and coarsening while it runs is the drift, such as ``age:32*8,32*-8``.
    """
    level = np.minimum(rng.geometric(0.5, num_requests) - 1, _MOST_REFINED)
    lifetimes = rng.lognormal(np.log(_BLOCK_LIFE), 1.2, num_requests)
    return _timed(_BLOCK_CELLS * 4**level, lifetimes, "mesh", rng)


def _timed(
    loads: IntArray, lives: FloatArray, generator: str, rng: np.random.Generator
) -> Workload:
    outputs = np.maximum(1, np.rint(np.minimum(lives, _LONGEST_LIFE))).astype(np.int64)
    times = Poisson(_JOBS_PER_S).sample(len(loads), rng)
    provenance = {"generator": generator, "arrivals": Poisson(_JOBS_PER_S).label}
    return Workload(loads.astype(np.int64), outputs, times, generator, provenance)


_CHAT_PROMPTS = Lognormal(median=800, sigma=1.1, maximum=32_768)
_CHAT_OUTPUTS = Geometric(200)

_RECIPES: dict[str, _Recipe] = {
    "demo": _Recipe(
        "heavy-tailed prompts (lognormal, median 800), geometric outputs (mean 200), Poisson",
        _independent(_CHAT_PROMPTS, _CHAT_OUTPUTS, Poisson(300)),
    ),
    "geometric": _Recipe(
        "uniform prompts 1..1000, geometric outputs (mean 200): the setting of Theorem 2",
        _independent(Uniform(1, 1000), Geometric(200), Poisson(300)),
    ),
    "lognormal": _Recipe(
        "lognormal prompts (median 1000) and outputs (median 150), both heavy-tailed",
        _independent(Lognormal(1000, 1.5, 131_072), Lognormal(150, 1.0, 16_384), Poisson(200)),
    ),
    "homogeneous": _Recipe(
        "uniform prompts 1..1000, every output 200: the setting of Theorem 1",
        _independent(Uniform(1, 1000), Homogeneous(200), Poisson(300)),
    ),
    "equal": _Recipe(
        "every prompt 1000 and every output 200: nothing to balance",
        _independent(Homogeneous(1000), Homogeneous(200), Poisson(300)),
    ),
    "bursty": _Recipe(
        "the lengths of demo, gamma arrivals with coefficient of variation 5",
        _independent(_CHAT_PROMPTS, _CHAT_OUTPUTS, GammaRenewal(300, cv=5)),
    ),
    "on-off": _Recipe(
        "the lengths of demo, arrivals switching between 1000/s and 20/s",
        _independent(_CHAT_PROMPTS, _CHAT_OUTPUTS, OnOff(1000, 20, 2.0, 5.0)),
    ),
    "overloaded": _Recipe(
        "BF-IO, Definition 1: certified for provenance['overloaded_steps'] steps; use pool",
        _overloaded,
    ),
    "jsq-bad": _Recipe(
        "bursts that pile up heavy requests on one worker under jsq; use timed arrivals",
        _jsq_bad,
    ),
    "tiles": _Recipe(
        "BF-IO section 7.2: panels of tiled matrix factorisations; use --drift constant",
        _tiles,
    ),
    "mesh": _Recipe(
        "BF-IO section 7.2: blocks of an adaptive mesh; use --drift constant or age:32*8,32*-8",
        _mesh,
    ),
    "sessions": _Recipe(
        "chat sessions whose prompts repeat what was said; block hashes for --prefix-cache",
        sessions,
    ),
    "round-robin-bad": _Recipe(
        "every 16th request heavy: all go to one of 16 workers under round-robin",
        _round_robin_bad,
    ),
}
