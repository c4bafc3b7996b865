"""Named synthetic workloads, as drawn by ``--synthetic NAME``.

`sessions` draws chat sessions, whose prompts repeat earlier messages and so share prefixes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from bfio.workloads.arrivals import ArrivalProcess, GammaRenewal, OnOff, Poisson
from bfio.workloads.generators import generate
from bfio.workloads.lengths import Geometric, Homogeneous, LengthDistribution, Lognormal, Uniform
from bfio.workloads.overload import jsq_bad, overloaded_steps, round_robin_bad
from bfio.workloads.request_data import BLOCK_TOKENS, BlockHashes, num_blocks
from bfio.workloads.workload import Workload
from formulations.arrays import FloatArray, IntArray, integer
from formulations.errors import InputError, known_keywords, use_one_of

#: Number of system prompts and blocks in each; the k-th is used with frequency ~ 1/k.
_SYSTEM_PROMPTS, _SYSTEM_BLOCKS = 8, 2
#: Mean turns of a session, and lengths of the user message and the answer per turn [tokens].
_MEAN_TURNS = 5
_MESSAGES, _ANSWERS = Lognormal(median=250, sigma=1.0, maximum=8_192), Geometric(200)
#: Mean time between turns [s], and new sessions per second: 300 requests/s in the long run.
_THINKING_S, _SESSIONS_PER_S = 2.0, 60.0


@dataclass(frozen=True)
class _Turns:
    """Turns of all chat sessions, session by session; arrays of shape (n,)."""

    session: IntArray
    first: IntArray
    system: IntArray

    def sums_within(self, increments: IntArray) -> IntArray:
        """Return running sums of increments within each session, including the turn's own."""
        sums = np.cumsum(increments)
        before = sums[self.first] - increments[self.first]
        return sums - before


def sessions(num_requests: int, rng: np.random.Generator) -> Workload:
    """Return the first requests of chat sessions, with the hashes of their blocks.

    The prompt of a turn consists of the system prompt, all earlier messages and answers of the
    session, and the message of the turn. Sessions start as a Poisson process and have a geometric
    number of turns. The time between turns is exponential and does not depend on the service time
    (an open loop).

    Parameters
    ----------
    num_requests : int
        Number of requests, >= 1.
    rng : numpy.random.Generator
        Source of randomness.
    """
    # Each session sends a request at its start, so the first requests need no later sessions.
    turns = _draw_turns(num_requests, rng)
    answers = _ANSWERS.sample(len(turns.session), rng)
    said = turns.sums_within(_MESSAGES.sample(len(answers), rng) + answers)
    prompts = _SYSTEM_BLOCKS * BLOCK_TOKENS + said - answers
    begins = np.cumsum(rng.exponential(1 / _SESSIONS_PER_S, num_requests))
    pauses = rng.exponential(_THINKING_S, len(answers))
    pauses[turns.first] = 0
    since = np.cumsum(pauses)
    times = begins[turns.session] + since - since[turns.first]
    order = np.argsort(times, kind="stable")[:num_requests]
    return Workload(
        prompts[order],
        answers[order],
        times[order].tolist(),
        "sessions",
        {"generator": "sessions", "sessions": len(np.unique(turns.session[order]))},
        block_hashes=_hashes(turns, prompts).part(order),
    )


def _draw_turns(num_sessions: int, rng: np.random.Generator) -> _Turns:
    counts = Geometric(_MEAN_TURNS).sample(num_sessions, rng)
    popularity = 1 / np.arange(1, _SYSTEM_PROMPTS + 1)
    systems = rng.choice(_SYSTEM_PROMPTS, num_sessions, p=popularity / popularity.sum())
    firsts = np.cumsum(counts) - counts
    return _Turns(
        np.repeat(np.arange(num_sessions), counts),
        np.repeat(firsts, counts),
        np.repeat(systems, counts),
    )


def _hashes(turns: _Turns, prompts: IntArray) -> BlockHashes:
    """Return the block hashes of prompts, shared through a system prompt or a session.

    The last block of a prompt is incomplete and is extended in the next turn, so its hash is
    unique.
    """
    blocks = num_blocks(prompts)
    own = _SYSTEM_PROMPTS * _SYSTEM_BLOCKS
    stride = int(blocks.max()) + 1
    rows = []
    for turn, (session, system) in enumerate(
        zip(turns.session.tolist(), turns.system.tolist(), strict=True)
    ):
        row = own + session * stride + np.arange(int(blocks[turn]))
        row[:_SYSTEM_BLOCKS] = system * _SYSTEM_BLOCKS + np.arange(_SYSTEM_BLOCKS)
        if prompts[turn] % BLOCK_TOKENS:
            row[-1] = own + (int(turns.session[-1]) + 1) * stride + turn
        rows.append(row)
    return BlockHashes.joined(rows)


#: Defaults of `bfio simulate`: workers and slots assumed by the adversarial workloads.
_WORKERS = 16
_SLOTS = 72
#: Maximum heavy requests of ``jsq-bad`` that its default lengths support.
_JSQ_ROUNDS = 16
#: Sides of tiles; work per quantum of a tile of the smallest side (in place of tokens); spread of
#: the factor by which contention stretches the time of a job.
_TILE_SIDES, _TILE_WORK, _CONTENTION = (128, 256, 512), 100, 0.3
#: Cells of an unrefined block, maximum refinements, and median lifetime [steps].
_BLOCK_CELLS, _MOST_REFINED, _BLOCK_LIFE = 256, 4, 60
#: Maximum lifetime of a job [steps], and job arrivals per second.
_LONGEST_LIFE, _JOBS_PER_S = 100_000, 300

_Draw: TypeAlias = Callable[[int, np.random.Generator], Workload]


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
    if not isinstance(name, str) or name not in _RECIPES:
        raise InputError("synthetic", f"unknown workload {name!r}", use_one_of(name, _RECIPES))
    _, draw = _RECIPES[name]
    workload = draw(num_requests, np.random.default_rng(seed))
    provenance = {**workload.provenance, "synthetic": name, "seed": seed}
    return replace(workload, name=name, provenance=provenance)


def synthetic_names() -> Mapping[str, str]:
    """Return the names that `synthetic` accepts, each with a one-line description."""
    return MappingProxyType({name: description for name, (description, _) in _RECIPES.items()})


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


def _tiles(num_requests: int, rng: np.random.Generator) -> Workload:
    """Draw panels of blocked Cholesky factorisations: BF-IO, section 7.2, first example.

    A job is a panel k of a matrix of T x T tiles. It occupies its worker for a quantum per tile of
    its column, T - k + 1 by design, stretched by contention and cache effects that are unknown in
    advance (a lognormal factor of median 1). Its load is the constant work per quantum,
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
    """Draw blocks of an adaptive mesh: BF-IO, section 7.2, second example.

    A block of 16 x 16 cells is refined l = 0..4 times at its start, each level half as likely as
    the one before, and then has 4^l as many cells. Its lifetime is heavy-tailed, because it
    depends on the evolving solution. Refinement and coarsening during the run are modelled by the
    drift, for example ``age:32*8,32*-8``.
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

#: Description and drawing of each workload.
_RECIPES: dict[str, tuple[str, _Draw]] = {
    "demo": (
        "heavy-tailed prompts (lognormal, median 800), geometric outputs (mean 200), Poisson",
        _independent(_CHAT_PROMPTS, _CHAT_OUTPUTS, Poisson(300)),
    ),
    "geometric": (
        "uniform prompts 1..1000, geometric outputs (mean 200): the setting of Theorem 2",
        _independent(Uniform(1, 1000), Geometric(200), Poisson(300)),
    ),
    "lognormal": (
        "lognormal prompts (median 1000) and outputs (median 150), both heavy-tailed",
        _independent(Lognormal(1000, 1.5, 131_072), Lognormal(150, 1.0, 16_384), Poisson(200)),
    ),
    "homogeneous": (
        "uniform prompts 1..1000, every output 200: the setting of Theorem 1",
        _independent(Uniform(1, 1000), Homogeneous(200), Poisson(300)),
    ),
    "equal": (
        "all prompts 1000, all outputs 200: requests of equal load",
        _independent(Homogeneous(1000), Homogeneous(200), Poisson(300)),
    ),
    "bursty": (
        "lengths of demo; gamma arrivals with coefficient of variation 5",
        _independent(_CHAT_PROMPTS, _CHAT_OUTPUTS, GammaRenewal(300, cv=5)),
    ),
    "on-off": (
        "lengths of demo; arrival rate switches between 1000/s and 20/s",
        _independent(_CHAT_PROMPTS, _CHAT_OUTPUTS, OnOff(1000, 20, 2.0, 5.0)),
    ),
    "overloaded": (
        "BF-IO, Definition 1: certified for provenance['overloaded_steps'] steps; use pool",
        _overloaded,
    ),
    "jsq-bad": (
        "bursts for which jsq sends all heavy requests to one worker; use timed arrivals",
        lambda num_requests, rng: jsq_bad(_WORKERS, _JSQ_ROUNDS).head(num_requests),
    ),
    "tiles": (
        "BF-IO section 7.2: panels of tiled matrix factorisations; use --drift constant",
        _tiles,
    ),
    "mesh": (
        "BF-IO section 7.2: blocks of an adaptive mesh; use --drift constant or age:32*8,32*-8",
        _mesh,
    ),
    "sessions": (
        "chat sessions whose prompts repeat earlier messages; block hashes for --prefix-cache",
        sessions,
    ),
    "round-robin-bad": (
        "every 16th request is heavy: round-robin sends all of these to one of 16 workers",
        lambda count, rng: round_robin_bad(_WORKERS, -(-count // _WORKERS)).head(count),
    ),
}
