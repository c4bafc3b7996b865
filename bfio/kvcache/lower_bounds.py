"""Instances that are drawn, or made to be bad: arrival models, lower bounds.

The random instances of the later version's simulation: Arrival Models 1 and 2.

Instances that force bad ratios: one long request, then many short ones while it runs.

The adversary of Theorem 6.2 and of the Ω(√n) bound of the later version waits until the algorithm
has started the long request and then releases short ones that no longer fit beside it; here the
algorithm is one that starts at once. Waiting with the long request would have been better. That
of Theorem 6.4 does not see the algorithm and draws the release.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, isqrt

import numpy as np

from bfio.kvcache.simulation import serve
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


def long_and_short(
    memory: int, prompt: int, num_short: int, release: int, convention: Convention
) -> LatencyProblem:
    """Return the long request (number 0, ``o = M - s``, at 0) and short ones (``o = 1``).

    Parameters
    ----------
    memory, prompt : int
        ``M`` and the common ``s`` [tokens].
    num_short : int
        How many short requests.
    release : int
        Round of their arrival.
    convention : Convention
        Which rounds are occupied.
    """
    integer(num_short, "num_short")
    arrival = np.full(1 + num_short, release, dtype=np.int64)
    output = np.ones(1 + num_short, dtype=np.int64)
    arrival[0], output[0] = 0, memory - prompt
    return LatencyProblem(memory, arrival, np.full_like(output, prompt), output, convention)


def theorem_6_2(
    memory: int, epsilon: Fraction, convention: Convention, num_short: int | None = None
) -> LatencyProblem:
    """Return the instance of Theorem 6.2 for an algorithm that starts the long request at 0.

    Parameters
    ----------
    memory : int
        ``M`` [tokens].
    epsilon : Fraction
        ``ε`` in (0, 1/2) with ``ε·M`` whole: prompts have ``ε·M`` tokens and the short requests
        arrive at ``(1-2ε)·M``.
    convention : Convention
        Which rounds are occupied.
    num_short : int, optional
        How many short requests, by default ``ε·M``; Remark 6.3 varies it.
    """
    prompt = Fraction(epsilon) * memory
    if not 0 < epsilon < Fraction(1, 2) or prompt.denominator != 1:
        raise InputError("epsilon", f"{epsilon}", "use 0 < epsilon < 1/2 with epsilon * M whole")
    count = int(prompt) if num_short is None else num_short
    return long_and_short(memory, int(prompt), count, memory - 2 * int(prompt), convention)


def square_root_bound(memory: int, convention: Convention) -> LatencyProblem:
    """Return the Ω(√n) instance: s = 1, M/2 short requests at ``M - √M/2``.

    Parameters
    ----------
    memory : int
        ``M`` [tokens], at least 4; roots and halves are rounded down.
    convention : Convention
        Which rounds are occupied.
    """
    integer(memory, "memory", minimum=4)
    return long_and_short(memory, 1, memory // 2, memory - isqrt(memory) // 2, convention)


def costs_6_2(memory: int, epsilon: Fraction) -> tuple[Fraction, Fraction, Fraction]:
    """Return the total latencies that the proof of Theorem 6.2 states, for an algorithm at 0.

    They are: of keeping the long request running, of pausing it for the short ones, and of the
    schedule that waits. The first two over the third tend to ``2/ε`` and ``1/ε``. They are the
    printed formulas; simulated totals differ in terms of lower order, by convention.
    """
    e, m = Fraction(epsilon), Fraction(memory)
    keep = (e**3 / 2 + e**2) * m**2 + (1 - e / 2) * m
    pause = e**2 * m**2 / 2 + (2 - e / 2) * m
    wait = e**3 * m**2 / 2 + (2 - 3 * e / 2) * m
    return keep, pause, wait


def limit_6_2(epsilon: Fraction, convention: Convention) -> Fraction:
    """Return what MC-SF attains on the instances of Theorem 6.2 as M grows: ``1 + 2·g/d``.

    It keeps the long request running: the ε·M short ones wait for the last ε·M rounds of it,
    which costs ``(εM)²``, and then run g = ⌊M / size⌋ at a time, d rounds each, which costs
    ``d·(εM)²/(2g)``. The schedule that waits pays the latter alone; what is left is linear in M.
    The theorem's own ``1/ε`` also covers algorithms that pause the long request.
    """
    together, rounds = _pace(epsilon, convention)
    return 1 + Fraction(2 * together, rounds)


def theorem_6_4(
    memory: int, epsilon: Fraction, constant: int, convention: Convention
) -> list[LatencyProblem]:
    """Return the instances I_k among which the adversary of Theorem 6.4 draws.

    Each has the long request of Theorem 6.2 at 0 and ``ε·M`` short ones at ``k·M``, for
    ``k = 1-2ε, 1-ε, ..., c+1-2ε``. Those are ``c/ε + 1`` values, so the printed probability of
    ``ε/c`` each adds up to more than 1; take them as equally likely.

    Parameters
    ----------
    memory : int
        ``M`` [tokens].
    epsilon : Fraction
        ``1/ε`` a whole number above 2 that divides M.
    constant : int
        ``c >= 1``, the ratio that the proof assumes and refutes.
    convention : Convention
        Which rounds are occupied.
    """
    integer(constant, "constant", minimum=1, maximum=10**6)
    steps = _steps(epsilon)
    if memory % steps:
        raise InputError("epsilon", f"{epsilon} of {memory} tokens", "use 1/epsilon dividing M")
    prompt = memory // steps
    return [
        long_and_short(memory, prompt, prompt, (steps - 2 + j) * prompt, convention)
        for j in range(constant * steps + 1)
    ]


def printed_bound_6_4(epsilon: Fraction, constant: int) -> Fraction:
    """Return the bound that the proof of Theorem 6.4 arrives at, for a finite ε.

    ``(1 - 1/c) + (1/c)·ε·Σ_k 1/(k'+1-k)``, where the sum over the ``1/ε - 2`` values of k is
    ``1/ε·(H_(1/ε-1) - 1)`` with the harmonic number H: it grows like ``ln(1/ε)/c`` only.
    """
    share = Fraction(1, constant)
    return 1 - share + share * sum(Fraction(1, j) for j in range(2, _steps(epsilon)))


def limit_6_4(epsilon: Fraction, constant: int, convention: Convention) -> Fraction:
    """Return what MC-SF attains on those instances as M grows: ``1 + 2·g / (d·(c/ε + 1))``.

    It starts the long request at 0. Of the c/ε + 1 instances only the first releases its short
    requests, ε·M of them, while the long one still runs, for another ε·M rounds: that costs
    ``(εM)²``. In all others nobody waits for the long one, and g = ⌊M / size⌋ short ones at a
    time, d rounds each, cost ``d·(εM)²/(2g)``, here and in the optimum; what is left is linear in
    M. A limit below `printed_bound_6_4`, which is to hold for every algorithm, refutes that
    argument.
    """
    together, rounds = _pace(epsilon, convention)
    return 1 + Fraction(2 * together, rounds * (constant * _steps(epsilon) + 1))


def _pace(epsilon: Fraction, convention: Convention) -> tuple[int, int]:
    """Return how many short requests run at a time for large M, and for how many rounds."""
    # A short request holds ε·M + 1 tokens, but in convention B ε·M.
    fits = floor(1 / epsilon) if convention is Convention.PRINTED else ceil(1 / epsilon) - 1
    return fits, 2 if convention is Convention.CLOSED else 1


def _steps(epsilon: Fraction) -> int:
    inverse = 1 / Fraction(epsilon) if epsilon > 0 else Fraction(0)
    if inverse.denominator != 1 or inverse < 3:
        raise InputError("epsilon", f"{epsilon}", "use 1/epsilon whole and above 2")
    return int(inverse)


def delayed_starts(problem: LatencyProblem, until: int | None = None) -> list[int]:
    """Return the schedule that holds request 0 back, and runs MC-SF but for that.

    Parameters
    ----------
    problem : LatencyProblem
        Data with at least one request.
    until : int, optional
        First round at which request 0 may start; by default when the last one arrives.
    """
    arrival = problem.arrival.copy()
    arrival[0] = arrival.max() if until is None else max(until, int(arrival[0]))
    held = LatencyProblem(
        problem.memory, arrival, problem.prompt, problem.output, problem.convention
    )
    starts: list[int] = serve(held, "mc-sf").start.tolist()
    return starts
