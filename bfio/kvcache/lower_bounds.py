"""Draw random instances of arrival models, and build worst-case instances of lower bounds.

The random instances follow the simulation of the later version: Arrival Models 1 and 2.

The worst-case instances have one long request, and many short ones that arrive while it runs. The
adversary of Theorem 6.2 and of the Ω(√n) bound of the later version waits until the algorithm
starts the long request, and then releases short ones that do not fit next to it. Here the
algorithm starts the long request at once; delaying it would have been better. The adversary of
Theorem 6.4 does not observe the algorithm and draws the release at random.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor, isqrt

import numpy as np

from bfio.kvcache.simulation import serve
from formulations.arrays import integer
from formulations.errors import InputError
from formulations.hindsight_latency import Convention, LatencyProblem

#: Larger values are assumed to be typing errors.
_MOST = 10_000
_HIGHEST_RATE = 1e3


@dataclass(frozen=True)
class ArrivalModel:
    """Random instances for one worker in unit rounds; all ranges include both ends.

    Model 1 has n requests at round 0, with n uniform on ``count``. Model 2 has Poisson arrivals in
    each round 0, ..., T - 1, with T uniform on ``count`` and the mean per round uniform on
    ``rate``. In both, M is uniform on ``memory``, prompts s on ``prompt`` and outputs on 1..M - s,
    so that each request fits alone under every convention.

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
        Whether one prompt is drawn for all requests, as the theory assumes, instead of one each.

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
        """Check all fields; an invalid value raises InputError."""
        integer(self.number, "arrival_model", minimum=1, maximum=2)
        for name in ("count", "memory", "prompt"):
            lowest, highest = getattr(self, name)
            integer(lowest, name, minimum=1, maximum=_MOST)
            integer(highest, name, minimum=lowest, maximum=_MOST)
        if self.prompt[1] >= self.memory[0]:
            what = f"{self.prompt[1]} tokens leave no space for output in {self.memory[0]} tokens"
            raise InputError("prompt", what, "use prompts below the least memory")
        if not 0 < self.rate[0] <= self.rate[1] <= _HIGHEST_RATE:
            raise InputError(
                "rate", f"{self.rate} is not a range of rates", "use 0 < lowest <= highest"
            )

    def draw(
        self, rng: np.random.Generator, convention: Convention = Convention.HALF_OPEN
    ) -> LatencyProblem:
        """Draw an instance.

        Parameters
        ----------
        rng : numpy.random.Generator
            Source of all randomness.
        convention : Convention
            Definition of the occupied rounds; the draws do not depend on it.
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
    """Return an instance of a long request (number 0, ``o = M - s``, at 0) and short ones.

    Parameters
    ----------
    memory, prompt : int
        ``M`` and the common ``s`` [tokens].
    num_short : int
        Number of short requests, with ``o = 1``.
    release : int
        Round of their arrival.
    convention : Convention
        Definition of the occupied rounds.
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
        ``ε`` in (0, 1/2) with ``ε·M`` an integer: prompts have ``ε·M`` tokens, and the short
        requests arrive at ``(1-2ε)·M``.
    convention : Convention
        Definition of the occupied rounds.
    num_short : int, optional
        Number of short requests, by default ``ε·M``; Remark 6.3 varies it.
    """
    prompt = Fraction(epsilon) * memory
    if not 0 < epsilon < Fraction(1, 2) or prompt.denominator != 1:
        remedy = "use 0 < epsilon < 1/2, epsilon * memory an integer"
        raise InputError("epsilon", f"{epsilon} is not allowed", remedy)
    count = int(prompt) if num_short is None else num_short
    return long_and_short(memory, int(prompt), count, memory - 2 * int(prompt), convention)


def square_root_bound(memory: int, convention: Convention) -> LatencyProblem:
    """Return the Ω(√n) instance: s = 1, M/2 short requests at ``M - √M/2``.

    Parameters
    ----------
    memory : int
        ``M`` [tokens], at least 4; roots and halves are rounded down.
    convention : Convention
        Definition of the occupied rounds.
    """
    integer(memory, "memory", minimum=4)
    return long_and_short(memory, 1, memory // 2, memory - isqrt(memory) // 2, convention)


def costs_6_2(memory: int, epsilon: Fraction) -> tuple[Fraction, Fraction, Fraction]:
    """Return the total latencies in the proof of Theorem 6.2, for an algorithm that starts at 0.

    They are for keeping the long request running, for pausing it in favour of the short ones, and
    for the schedule that delays it. The first two divided by the third tend to ``2/ε`` and
    ``1/ε``. These are the published formulas; simulated totals differ in lower-order terms,
    depending on the convention.
    """
    e, m = Fraction(epsilon), Fraction(memory)
    keep = (e**3 / 2 + e**2) * m**2 + (1 - e / 2) * m
    pause = e**2 * m**2 / 2 + (2 - e / 2) * m
    wait = e**3 * m**2 / 2 + (2 - 3 * e / 2) * m
    return keep, pause, wait


def limit_6_2(epsilon: Fraction, convention: Convention) -> Fraction:
    """Return the limit of MC-SF's ratio on the instances of Theorem 6.2 as M grows: ``1 + 2·g/d``.

    MC-SF keeps the long request running. The ε·M short ones wait for its last ε·M rounds, at a
    cost of ``(εM)²``. Then g = ⌊M / size⌋ of them run at a time for d rounds each, at a cost of
    ``d·(εM)²/(2g)``. The schedule that delays the long request only has the latter cost; all other
    terms are linear in M. The ``1/ε`` of the theorem also covers algorithms that pause the long
    request.
    """
    together, rounds = _pace(epsilon, convention)
    return 1 + Fraction(2 * together, rounds)


def theorem_6_4(
    memory: int, epsilon: Fraction, constant: int, convention: Convention
) -> list[LatencyProblem]:
    """Return the instances I_k from which the adversary of Theorem 6.4 draws.

    Each has the long request of Theorem 6.2 at 0 and ``ε·M`` short ones at ``k·M``, for
    ``k = 1-2ε, 1-ε, ..., c+1-2ε``. Those are ``c/ε + 1`` values, so the published probability of
    ``ε/c`` each adds up to more than 1; the instances are assumed equally likely.

    Parameters
    ----------
    memory : int
        ``M`` [tokens].
    epsilon : Fraction
        ``1/ε`` is an integer above 2 that divides M.
    constant : int
        ``c >= 1``, the ratio that the proof assumes and contradicts.
    convention : Convention
        Definition of the occupied rounds.
    """
    integer(constant, "constant", minimum=1, maximum=10**6)
    steps = _steps(epsilon)
    if memory % steps:
        what = f"1/{epsilon} does not divide the memory of {memory} tokens"
        raise InputError("epsilon", what, "use 1/epsilon dividing M")
    prompt = memory // steps
    return [
        long_and_short(memory, prompt, prompt, (steps - 2 + j) * prompt, convention)
        for j in range(constant * steps + 1)
    ]


def printed_bound_6_4(epsilon: Fraction, constant: int) -> Fraction:
    """Return the bound in the proof of Theorem 6.4 for a finite ε.

    ``(1 - 1/c) + (1/c)·ε·Σ_k 1/(k'+1-k)``, where the sum over the ``1/ε - 2`` values of k is
    ``1/ε·(H_(1/ε-1) - 1)`` with the harmonic number H. It only grows like ``ln(1/ε)/c``.
    """
    share = Fraction(1, constant)
    return 1 - share + share * sum(Fraction(1, j) for j in range(2, _steps(epsilon)))


def limit_6_4(epsilon: Fraction, constant: int, convention: Convention) -> Fraction:
    """Return the limit of MC-SF's ratio on these instances: ``1 + 2·g / (d·(c/ε + 1))``.

    MC-SF starts the long request at 0. Only the first of the c/ε + 1 instances releases its ε·M
    short requests while the long one still runs, for another ε·M rounds, at a cost of ``(εM)²``.
    In all others no request waits for the long one, and g = ⌊M / size⌋ short ones at a time, d
    rounds each, cost ``d·(εM)²/(2g)``, as in the optimum; all other terms are linear in M. A limit
    below `printed_bound_6_4`, which is claimed for every algorithm, refutes that argument.
    """
    together, rounds = _pace(epsilon, convention)
    return 1 + Fraction(2 * together, rounds * (constant * _steps(epsilon) + 1))


def _pace(epsilon: Fraction, convention: Convention) -> tuple[int, int]:
    """Return the number of short requests that run at a time for large M, and their rounds."""
    # A short request holds ε·M + 1 tokens, or ε·M in convention B.
    fits = floor(1 / epsilon) if convention is Convention.PRINTED else ceil(1 / epsilon) - 1
    return fits, 2 if convention is Convention.CLOSED else 1


def _steps(epsilon: Fraction) -> int:
    inverse = 1 / Fraction(epsilon) if epsilon > 0 else Fraction(0)
    if inverse.denominator != 1 or inverse < 3:
        raise InputError("epsilon", f"{epsilon}", "use 1/epsilon whole and above 2")
    return int(inverse)


def delayed_starts(problem: LatencyProblem, until: int | None = None) -> list[int]:
    """Return the schedule that delays request 0 and otherwise follows MC-SF.

    Parameters
    ----------
    problem : LatencyProblem
        Data with at least one request.
    until : int, optional
        First round at which request 0 may start; by default the last arrival.
    """
    arrival = problem.arrival.copy()
    arrival[0] = arrival.max() if until is None else max(until, int(arrival[0]))
    starts: list[int] = serve(replace(problem, arrival=arrival), "mc-sf").start.tolist()
    return starts
