"""Hypothesis strategies that draw problems and step states, and functions that build them."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st

from bfio.decode.state import DecodeState
from bfio.testing.states import make_state
from formulations.fluid import FluidProblem, FluidWorker, RequestClass
from formulations.hindsight_latency import Convention, LatencyProblem
from formulations.hindsight_makespan import MakespanObjective, MakespanProblem
from formulations.step import Objective, StepProblem
from formulations.step.problem import discount_weights

#: Loads and sizes [tokens]: small numbers, which give frequent ties and zeros, and up to millions.
TOKENS = st.integers(0, 3) | st.integers(0, 20) | st.integers(0, 5_000_000)
SIZES = st.integers(1, 3) | st.integers(1, 20) | st.integers(1, 5_000_000)


@st.composite
def decode_states(
    draw: st.DrawFn,
    *,
    max_workers: int = 5,
    max_waiting: int = 9,
    horizon: int | None = None,
    memory: bool = False,
    tokens: st.SearchStrategy[int] = TOKENS,
    sizes: st.SearchStrategy[int] = SIZES,
) -> DecodeState:
    """Draw a state of one step: many ties, full workers, empty pools, arbitrary future loads.

    Parameters
    ----------
    max_workers, max_waiting : int
        Largest ``G`` and ``N``.
    horizon : int, optional
        Look-ahead ``H`` [steps], by default drawn from 0 to 3. In a longer window, the loads of
        three drawn steps repeat.
    memory : bool
        Whether to limit the memory of the workers; then no request is queued at a worker.
    tokens, sizes : SearchStrategy
        Loads and sizes [tokens].
    """
    G, N = draw(st.integers(1, max_workers)), draw(st.integers(0, max_waiting))
    H = draw(st.integers(0, 3)) if horizon is None else horizon

    def per_worker(values: st.SearchStrategy[int]) -> list[int]:
        return draw(st.lists(values, min_size=G, max_size=G))

    def window(first: list[int]) -> list[list[int]]:
        later = st.lists(tokens, min_size=min(H, 3), max_size=min(H, 3))
        return [[value, *np.resize(np.array(draw(later), np.int64), H)] for value in first]

    loads = per_worker(tokens)
    waiting = draw(st.lists(sizes, min_size=N, max_size=N))
    return make_state(
        loads,
        per_worker(st.integers(0, 4)),
        waiting,
        running=per_worker(st.integers(0, 5)),
        queued=None if memory else per_worker(st.integers(0, 5)),
        queued_tokens=None if memory else per_worker(tokens),
        projected=window(loads),
        contributions=window(waiting),
        room=per_worker(tokens) if memory else None,
        seed=draw(st.integers(0, 5)),
    )


@st.composite
def rounds(
    draw: st.DrawFn,
    *,
    max_workers: int = 3,
    max_slots: int = 3,
    max_size: int = 20,
    horizon: int = 0,
) -> DecodeState:
    """Draw a state of Lemma 1: equal loads, equal free slots, and as many requests as slots."""
    G, B = draw(st.integers(2, max_workers)), draw(st.integers(1, max_slots))
    sizes = draw(st.lists(st.integers(1, max_size), min_size=G * B, max_size=G * B))
    load = draw(st.integers(0, max_size))
    return _constant([load] * G, [B] * G, sizes, horizon)


@st.composite
def levelling_steps(
    draw: st.DrawFn,
    *,
    max_workers: int = 3,
    max_slots: int = 2,
    max_size: int = 8,
    max_spare: int = 3,
    horizon: int = 0,
) -> DecodeState:
    """Draw a state of Lemma 2: a free slot on every worker, arbitrary loads, an overloaded pool.

    Parameters
    ----------
    max_workers, max_slots : int
        Largest ``G``, and most free slots of a worker.
    max_size : int
        Largest size of a request [tokens]; loads are at most ``2·max_size·max_slots``.
    max_spare : int
        Largest number of requests beyond one more than the free slots; further requests are added
        where Definition 1 (overload) requires them.
    horizon : int
        Look-ahead [steps], over which loads are constant.
    """
    G = draw(st.integers(2, max_workers))
    free = draw(st.lists(st.integers(1, max_slots), min_size=G, max_size=G))
    loads = draw(st.lists(st.integers(0, 2 * max_size * max_slots), min_size=G, max_size=G))
    size, C = st.integers(1, max_size), sum(free)
    pool = draw(st.lists(size, min_size=C + 1, max_size=C + 1 + max_spare))
    # Overloaded: without the requests of any one size, the others still fill all slots.
    while (lacking := C - len(pool) + max(map(pool.count, pool))) > 0:
        common = max(pool, key=pool.count)
        pool += [common % max_size + 1] * lacking
    return _constant(loads, free, pool, horizon)


def _constant(
    loads: Sequence[int], free: Sequence[int], sizes: Sequence[int], horizon: int
) -> DecodeState:
    """Return a state whose loads are constant over the window."""
    return make_state(loads, free, sizes, projected=[[load] * (horizon + 1) for load in loads])


#: Largest token counts to draw: small ones give ties, large ones test floating-point precision.
_SCALES = st.sampled_from([1, 3, 20, 1000, 1_000_000])


def step_problem(
    capacity: list[int], base: list[list[int]], contribution: list[list[int]], **options: Any
) -> StepProblem:
    """Build a step problem from plain lists."""
    document = {"capacity": capacity, "base": base, "contribution": contribution}
    return StepProblem.from_mapping(document | options)


@st.composite
def step_problems(
    draw: st.DrawFn,
    *,
    max_workers: int = 4,
    max_requests: int = 6,
    max_horizon: int = 3,
    options: bool = True,
    benefit: bool = True,
) -> StepProblem:
    """Draw a step problem, including ties, full workers, no requests, zero and huge loads.

    Parameters
    ----------
    max_workers, max_requests, max_horizon : int
        Largest ``G``, ``N`` and ``H``.
    options : bool
        Whether to draw token capacities, required requests, worker speeds and admission counts.
    benefit : bool
        Whether to draw benefits as well; they need ``options``.
    """
    G = draw(st.integers(1, max_workers))
    N = draw(st.integers(0, max_requests))
    steps = 1 + draw(st.integers(0, max_horizon))
    largest = draw(_SCALES)
    tokens = st.integers(0, largest)
    row = st.lists(tokens, min_size=steps, max_size=steps)
    base = draw(st.lists(row, min_size=G, max_size=G))
    capacity = draw(st.lists(st.integers(0, 4), min_size=G, max_size=G))
    document: dict[str, Any] = {
        "capacity": capacity,
        "base": base,
        "contribution": draw(_contributions(N, steps, largest)),
        "objective": draw(st.sampled_from(list(Objective))),
    }
    if draw(st.booleans()):
        discounts = st.lists(
            st.fractions(0, 1, max_denominator=100), min_size=steps, max_size=steps
        )
        document["weights"], document["scale"] = discount_weights(draw(discounts))
    if options:
        document |= draw(_options(N, capacity, base, largest))
    if options and benefit and draw(st.booleans()):
        # Benefits are multiples of half a token.
        unit = max(1, document.get("scale", 1) // 2)
        worth = st.integers(0, 4 * largest).map(lambda half: half * unit)
        row = st.lists(st.just(0) | worth, min_size=G, max_size=G)
        document["benefit"] = np.array(draw(st.lists(row, min_size=N, max_size=N))).reshape(N, G)
    return StepProblem(**document)


@st.composite
def _contributions(draw: st.DrawFn, N: int, steps: int, largest: int) -> list[list[int]]:
    """Draw arbitrary rows, or the papers' rows: ``s_i + h`` (growing) or ``s_i`` (constant)."""
    kind = draw(st.sampled_from(["general", "growing", "constant", "equal"]))
    if kind == "general":
        row = st.lists(st.integers(0, largest), min_size=steps, max_size=steps)
        return draw(st.lists(row, min_size=N, max_size=N))
    sizes = draw(st.lists(st.integers(1, max(1, largest)), min_size=N, max_size=N))
    if kind == "equal" and sizes:
        sizes = [sizes[0]] * N
    slope = 1 if kind == "growing" else 0
    return [[s + slope * h for h in range(steps)] for s in sizes]


@st.composite
def _options(
    draw: st.DrawFn, N: int, capacity: list[int], base: list[list[int]], largest: int
) -> dict[str, Any]:
    """Draw some of: token capacities, required requests, worker speeds, number of admissions."""
    options: dict[str, Any] = {}
    G = len(capacity)
    if draw(st.booleans()):
        options["token_time"] = draw(st.lists(st.integers(1, 3), min_size=G, max_size=G))
    if draw(st.booleans()):
        room = st.integers(0, 4 * largest)
        options["token_capacity"] = [max(row) + draw(room) for row in base]
    if draw(st.booleans()):
        options["required"] = draw(st.lists(st.booleans(), min_size=N, max_size=N))
    if draw(st.booleans()):
        options["admit"] = draw(st.integers(0, min(N, sum(capacity))))
    return options


def latency_problem(
    memory: int,
    requests: Sequence[tuple[int, int, int]],
    convention: str = "C",
) -> LatencyProblem:
    """Return a problem from (arrival, prompt, output) triples."""
    arrival, prompt, output = np.array(requests, dtype=np.int64).reshape(-1, 3).T
    return LatencyProblem(memory, arrival, prompt, output, Convention(convention))


def _requests(draw: st.DrawFn, number: int, new: Callable[[], Any]) -> list[tuple[int, int, int]]:
    """Draw requests, each by ``new`` or equal to an earlier one."""
    requests: list[tuple[int, int, int]] = []
    for _ in range(number):
        again = draw(st.booleans()) and requests
        requests.append(draw(st.sampled_from(requests)) if again else new())
    return requests


@st.composite
def latency_problems(
    draw: st.DrawFn,
    *,
    min_requests: int = 0,
    max_requests: int = 4,
    max_memory: int = 9,
    max_output: int = 5,
    common_prompt: bool = False,
    all_at_once: bool = False,
) -> LatencyProblem:
    """Draw a latency problem, with identical requests, tight memory, near and far arrivals.

    Parameters
    ----------
    min_requests, max_requests : int
        Range of ``n``.
    max_memory, max_output : int
        Largest memory and output [tokens].
    common_prompt, all_at_once : bool
        Whether all prompts are equal; whether all requests arrive at round 0.
    """
    convention = draw(st.sampled_from(list(Convention)))
    # The smallest request has a peak of 1 token under B and of 2 under A and C.
    memory = draw(st.integers(2, max_memory))
    shared = draw(st.integers(1, memory - 1)) if common_prompt else None

    def new() -> tuple[int, int, int]:
        prompt = shared or draw(st.integers(1, memory - 1))
        longest = memory - prompt + (convention is Convention.PRINTED)
        output = draw(st.integers(1, min(longest, max_output)))
        arrival = 0 if all_at_once else draw(st.sampled_from((0, 0, 0, 1, 2, 5, 12)))
        return arrival, prompt, output

    requests = _requests(draw, draw(st.integers(min_requests, max_requests)), new)
    return latency_problem(memory, requests, convention.value)


def makespan_problem(
    workers: int, slots: int, requests: Sequence[tuple[int, int, int]], **options: Any
) -> MakespanProblem:
    """Return a problem from (arrival, prompt, output) triples; C = 0 and t_l = 1 by default."""
    columns = np.array(requests, dtype=np.int64).reshape(-1, 3)
    times = {"step_overhead": Fraction(0), "token_time": Fraction(1)}
    return MakespanProblem(workers, slots, *columns.T, **(times | options))


@st.composite
def makespan_problems(
    draw: st.DrawFn, *, min_requests: int = 0, max_requests: int = 3, max_workers: int = 3
) -> MakespanProblem:
    """Draw ties, identical requests, gaps between arrivals, free or exact times.

    Parameters
    ----------
    min_requests, max_requests : int
        Range of ``n``.
    max_workers : int
        Largest ``G``.
    """
    objective = draw(st.sampled_from(list(MakespanObjective)))
    arrivals = draw(st.sampled_from(((0,), (0, 0, 1, 2), (0, 3, 7))))
    one = (st.sampled_from(arrivals), st.integers(1, 6), st.integers(1, 3))
    number = draw(st.integers(min_requests, max_requests))
    requests = _requests(draw, number, lambda: tuple(map(draw, one)))
    times = [Fraction(0), Fraction(1), Fraction(1, 3), Fraction(5), Fraction("0.25")]
    workers = draw(st.integers(1, max_workers))
    conserves: bool = draw(st.booleans())
    is_imbalance = objective is MakespanObjective.IMBALANCE
    memory = None
    if not conserves and not is_imbalance and draw(st.booleans()):
        memory = draw(memories(workers, requests))
    return makespan_problem(
        workers,
        draw(st.integers(1, 2)),
        requests,
        memory=memory,
        step_overhead=draw(st.sampled_from(times)),
        token_time=draw(st.sampled_from(times[1:])),
        objective=objective,
        work_conserving=None if is_imbalance else conserves,
    )


@st.composite
def memories(
    draw: st.DrawFn, workers: int, requests: Sequence[tuple[int, int, int]]
) -> int | list[int]:
    """Draw equal or unequal memories in which every request fits somewhere."""
    least = max((s + o - 1 for _, s, o in requests), default=1)
    if draw(st.booleans()):
        return least + draw(st.integers(0, 8))
    others = [draw(st.integers(1, least + 6)) for _ in range(workers - 1)]
    return draw(st.permutations([least + draw(st.integers(0, 6)), *others]))


def fluid_problem(
    memory: int, rows: list[tuple[Any, int, int]], d0: Any = "1/2", d1: Any = "1/18"
) -> FluidProblem:
    """Return a problem of one worker from (rate, prompt, output)."""
    classes = tuple(RequestClass(*row) for row in rows)
    return FluidProblem(classes, (FluidWorker(d0, d1, memory),))


_RATES = st.builds(Fraction, st.integers(1, 400), st.integers(1, 60))
_WORKERS = st.builds(
    FluidWorker,
    d0=st.builds(Fraction, st.integers(1, 50), st.integers(1, 1000)),
    d1=st.one_of(
        st.just(Fraction(0)), st.builds(Fraction, st.integers(1, 20), st.integers(100, 10**7))
    ),
    memory=st.one_of(st.integers(1, 200), st.integers(1, 10**6), st.just(10**12)),
)


@st.composite
def _request_classes(draw: st.DrawFn, num_workers: int | None = None) -> RequestClass:
    """Draw a class; with ``num_workers`` it may be confined to some of them."""
    allowed = None
    if num_workers is not None:
        chosen = draw(st.sets(st.integers(0, num_workers - 1), max_size=num_workers))
        allowed = tuple(sorted(chosen)) or None
    return RequestClass(
        draw(_RATES), draw(st.integers(1, 300)), draw(st.integers(0, 300)), allowed
    )


@st.composite
def fluid_problems(
    draw: st.DrawFn, *, max_workers: int = 1, max_classes: int = 6, confined: bool = False
) -> FluidProblem:
    """Draw a problem of some classes, stable or not, with any memory.

    ``confined`` classes may be served by some of the workers only.
    """
    machines = draw(st.lists(_WORKERS, min_size=1, max_size=max_workers))
    kind = _request_classes(len(machines) if confined else None)
    classes = draw(st.lists(kind, min_size=1, max_size=max_classes))
    return FluidProblem(tuple(classes), tuple(machines))


@st.composite
def stable_fluid_problems(draw: st.DrawFn) -> FluidProblem:
    """Draw a problem of one worker with a load below 1, by slowing its arrivals."""
    problem = draw(fluid_problems())
    worker = problem.workers[0]
    target = draw(st.sampled_from([Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)]))
    load = worker.d1 * problem.work_rate
    factor = min(Fraction(1), target / load) if load else Fraction(1)
    classes = tuple(RequestClass(k.rate * factor, k.prompt, k.output) for k in problem.classes)
    return FluidProblem(classes, problem.workers)
