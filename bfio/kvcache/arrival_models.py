"""The random instances of the later version's simulation: Arrival Models 1 and 2."""

from dataclasses import dataclass

import numpy as np

from formulations.arrays import integer
from formulations.errors import InputError
from formulations.hindsight_latency import Convention, LatencyProblem

#: Beyond these an instance is no toy any more, and a slip of the pen.
_MOST = 10_000
_HIGHEST_RATE = 1e3


@dataclass(frozen=True)
class ArrivalModel:
    """Law of instances for one worker in unit rounds; all ranges include both ends.

    Model 1 has n requests at round 0, n uniform on ``count``. Model 2 has a Poisson number of
    arrivals in each round 0, ..., T - 1, with T uniform on ``count`` and a mean per round uniform
    on ``rate``. In both, M is uniform on ``memory``, prompts s on ``prompt`` and outputs on
    1..M - s, so that a request fits alone under every convention.

    Parameters
    ----------
    number : int
        1 or 2.
    count : tuple of int
        Requests (model 1) or rounds with arrivals (model 2).
    memory : tuple of int
        ``M`` [tokens].
    prompt : tuple of int
        ``s`` [tokens], below M.
    rate : tuple of float
        Mean arrivals per round (model 2).
    common_prompt : bool
        Draw one prompt for all requests, as the theory assumes, instead of one for each.

    Raises
    ------
    InputError
        If a range is empty or out of bounds.
    """

    number: int = 1
    count: tuple[int, int] = (40, 60)
    memory: tuple[int, int] = (30, 50)
    prompt: tuple[int, int] = (1, 5)
    rate: tuple[float, float] = (0.5, 1.5)
    common_prompt: bool = False

    def __post_init__(self) -> None:
        """Validate."""
        integer(self.number, "arrival_model", minimum=1, maximum=2)
        for name, (lowest, highest) in (
            ("count", self.count),
            ("memory", self.memory),
            ("prompt", self.prompt),
        ):
            integer(lowest, name, minimum=1, maximum=_MOST)
            integer(highest, name, minimum=lowest, maximum=_MOST)
        if self.prompt[1] >= self.memory[0]:
            raise InputError(
                "prompt",
                f"{self.prompt[1]} tokens leave no room in a memory of {self.memory[0]}",
                "use prompts below the least memory",
            )
        if not 0 < self.rate[0] <= self.rate[1] <= _HIGHEST_RATE:
            raise InputError("rate", f"{self.rate} is no range", "use 0 < lowest <= highest")

    def draw(
        self, rng: np.random.Generator, convention: Convention = Convention.HALF_OPEN
    ) -> LatencyProblem:
        """Return one instance.

        Parameters
        ----------
        rng : numpy.random.Generator
            The only source of randomness.
        convention : Convention
            Which rounds are occupied; what is drawn does not depend on it.
        """
        memory = int(rng.integers(*self.memory, endpoint=True))
        count = int(rng.integers(*self.count, endpoint=True))
        if self.number == 1:
            arrival = np.zeros(count, dtype=np.int64)
        else:
            arrivals = rng.poisson(rng.uniform(*self.rate), count)
            arrival = np.repeat(np.arange(count, dtype=np.int64), arrivals)
        size = 1 if self.common_prompt else len(arrival)
        prompt = rng.integers(*self.prompt, endpoint=True, size=size)
        prompt = np.broadcast_to(prompt, len(arrival)).astype(np.int64)
        output = rng.integers(1, memory - prompt, endpoint=True).astype(np.int64)
        return LatencyProblem(memory, arrival, prompt, output, convention)
