"""Named synthetic workloads: what ``--synthetic NAME`` draws."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from bfio.workloads.adversarial import jsq_bad, round_robin_bad
from bfio.workloads.arrivals import ArrivalProcess, GammaRenewal, OnOff, Poisson
from bfio.workloads.generators import generate
from bfio.workloads.lengths import Geometric, Homogeneous, LengthDistribution, Lognormal, Uniform
from bfio.workloads.overload import overloaded_steps
from bfio.workloads.workload import Workload
from formulations.arrays import integer
from formulations.errors import InputError, use_one_of
from formulations.keywords import known_keywords

#: The defaults of `bfio simulate`: workers and slots that the adversarial names aim at.
_WORKERS = 16
_SLOTS = 72
#: Most heavy requests of ``jsq-bad``: those its default lengths outlive.
_JSQ_ROUNDS = 16

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
    return Workload(
        workload.prompt_tokens,
        workload.output_tokens,
        workload.arrival_times,
        name,
        provenance,
    )


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
    "round-robin-bad": _Recipe(
        "every 16th request heavy: all go to one of 16 workers under round-robin",
        _round_robin_bad,
    ),
}
