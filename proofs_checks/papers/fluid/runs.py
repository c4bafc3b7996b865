"""Small runs of the toolkit's engine, with integer times, and policies to try statements on."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from bfio.common.engine_choice import Engine
from bfio.wait.chains import ThresholdPolicy, nested_policy, wait_policy
from bfio.wait.fcfs import Favour, FirstComeFirstServed
from bfio.wait.instance import StageClock, StageInstance
from bfio.wait.policy import StagePolicy, StageState
from bfio.wait.run import StageRun
from bfio.wait.simulation import serve
from formulations.arrays import integer_vector
from formulations.fluid import FluidProblem, FluidWorker, RequestClass

#: A request: arrival [clock units], prompt and output [tokens].
Request = tuple[int, int, int]

#: Instance of appendices A.3 and A.4 with K = 1: M* = 9, Thr* = 5.
CANONICAL_CLASSES = (RequestClass(Fraction(1), 1, 1), RequestClass(Fraction(1), 1, 2))


def canonical(memory: int = 9, d0: Fraction = Fraction(1, 2)) -> FluidProblem:
    """Return that instance with ``d0 + 9·d1 = 1``, or with less d0."""
    return FluidProblem(CANONICAL_CLASSES, (FluidWorker(d0, Fraction(1, 18), memory),))


def instance_of(
    requests: Sequence[Request], fixed: int, per_token: int, memory: int = 10**6
) -> StageInstance:
    """Return requests on an engine whose batch of X tokens lasts ``fixed + per_token·X``."""
    columns = list(zip(*sorted(requests), strict=True)) or [(), (), ()]
    arrival, prompt, output = (
        integer_vector(list(column), name)
        for name, column in zip(("arrival", "prompt", "output"), columns, strict=True)
    )
    return StageInstance(memory, StageClock(1, fixed, per_token), arrival, prompt, output)


def reference(
    instance: StageInstance,
    policy: StagePolicy,
    duration: int | None = None,
    *,
    drain: bool = False,
) -> StageRun:
    """Serve with the readable engine up to a clock value."""
    seconds = None if duration is None else Fraction(duration, instance.clock.units_per_second)
    return serve(instance, policy, horizon_s=seconds, drain=drain, engine=Engine.REFERENCE)


@dataclass(frozen=True)
class Setting:
    """A random small engine with classes.

    Parameters
    ----------
    classes : tuple of (int, int)
        Prompt and output of each class, all different.
    requests : tuple of Request
        What arrives, sorted.
    fixed, per_token : int
        Time of a batch [clock units].
    """

    classes: tuple[tuple[int, int], ...]
    requests: tuple[Request, ...]
    fixed: int
    per_token: int

    def instance(self, memory: int = 10**6) -> StageInstance:
        """Return it for the engine."""
        return instance_of(self.requests, self.fixed, self.per_token, memory)

    def wait(self, thresholds: Sequence[int]) -> ThresholdPolicy:
        """Return WAIT for the classes."""
        kinds = [RequestClass(Fraction(1), *lengths) for lengths in self.classes]
        return wait_policy(kinds, thresholds)


def random_setting(
    rng: np.random.Generator, number: int, *, equal_prompts: bool = False, most: int = 3
) -> Setting:
    """Draw classes, times, and arrivals that come in bunches as well as one by one."""
    prompt = int(rng.integers(1, 5))
    outputs = sorted(set(rng.integers(0, 5, int(rng.integers(1, most + 1))).tolist()))
    classes = tuple(
        (prompt if equal_prompts else int(rng.integers(1, 5)), int(output)) for output in outputs
    )
    kinds = rng.integers(0, len(classes), number).tolist()
    gaps = rng.integers(0, 12, number) * (rng.random(number) < 0.6)
    times = np.cumsum(gaps).tolist()
    requests = tuple((t, *classes[k]) for t, k in zip(times, kinds, strict=True))
    return Setting(classes, requests, int(rng.integers(1, 8)), int(rng.integers(0, 3)))


def random_policy(seed: int) -> Callable[[StageState], list[int]]:
    """Return a policy that puts each request that is there into the batch by a coin."""
    rng = np.random.default_rng(seed)

    def policy(state: StageState) -> list[int]:
        present = [*state.held, *state.waiting]
        return [i for i in present if rng.random() < 0.5]

    return policy


def sundry_policies(setting: Setting, rng: np.random.Generator) -> Iterator[StagePolicy]:
    """Yield WAIT, Nested WAIT, first come first served with and without limits, coins."""
    yield setting.wait(rng.integers(1, 4, len(setting.classes)).tolist())
    ends = sorted({output for _, output in setting.classes})
    yield nested_policy(ends, rng.integers(1, 4, len(ends)).tolist())
    yield FirstComeFirstServed()
    yield FirstComeFirstServed(Favour.NEW, limit=int(rng.integers(1, 4)))
    yield random_policy(int(rng.integers(10**9)))
