"""Appendix C.1 and C.3: counts per slot and their scaling limits: (C.8), (C.9), Lemma 2."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from formulations.batching import BatchTime
from proofs_checks.claim import Claims, Context, Defect, Mutation
from proofs_checks.evidence import Data, Outcome
from proofs_checks.papers.batching.model import (
    Batch,
    Policy,
    Queue,
    State,
    fill,
    orca,
    random_time,
    sarathi,
    simple_engine,
)
from proofs_checks.search import examine, refute

CLAIMS = Claims()


def completed(time: BatchTime, loads: Sequence[int]) -> list[int]:
    """Return ``B(n)``, n = 0, 1, ...: tokens of the batches completed by the end of slot n."""
    done = [0]
    for load in loads:
        done += [done[-1]] * (time.slots(load) - 1) + [done[-1] + load]
    return done


def _worst_window(time: BatchTime, budget: int, loads: Sequence[int]) -> tuple[int, int] | None:
    """Return the first ``n1 < n2``, in blocks of t_b, that violate (C.8), or None."""
    done = completed(time, loads)
    blocks = done[:: time.slots(budget)]
    for i, before in enumerate(blocks):
        for j in range(i + 1, len(blocks)):
            if blocks[j] - before > (j - i) * budget:
                return i, j
    return None


def _time_of(data: Data) -> BatchTime:
    c, a, b0 = data["time"]
    return BatchTime(Fraction(c), Fraction(a), b0)


def verify_c8(data: Data) -> str | None:
    """Confirm a sequence of batches that violates (C.8), although full batches are fastest."""
    c, a, b0 = data["time"]
    budget, loads = data["budget"], data["loads"]
    if min(c, budget) < 1 or min(a, b0) < 0 or any(not 0 <= x <= budget for x in loads):
        return None
    time = _time_of(data)
    window = _worst_window(time, budget, loads)
    if window is None or not time.rate_check(budget).holds:
        return None
    done = completed(time, loads)[:: time.slots(budget)]
    first, last = window
    return (
        f"b = {budget}, t_b = {time.slots(budget)}, batches of {loads}: "
        f"{done[last] - done[first]} tokens are done between n1 = {first} and n2 = {last}, not "
        f"{(last - first) * budget}"
    )


@CLAIMS.formula(
    "batching.c8",
    Mutation("full batches only, which begin at multiples of t_b", full=True),
    Mutation("the correction without b more", slack=False),
    defect=Defect.FORMULA,
    verify=verify_c8,
)
def _c8_check(context: Context, *, slack: bool = True, full: bool = False) -> Outcome:
    """Tokens completed in a time.

    Source: throughput paper, (C.8) (appendix C.1)
    Statement: Between n1·t_b and n2·t_b at most (n2 − n1)b tokens are completed.
    Formula: B_f(n2 t_b) − B_f(n1 t_b) ≤ (n2 − n1) b
    Assumes: b'/t_b' ≤ b/t_b for all b' ≤ b
    Summary: Batches need not begin at multiples of t_b: one that began before is completed within,
        and tokens count when their batch is done. Of either phase alone it fails alike, as a batch
        may be of one phase.
    Correction: With b more: B(n') − B(n) ≤ (n' − n)b/t_b + b between any two slots, which is
        enough for the fluid limit.
    """
    rng = context.rng

    def cases() -> Iterator[Data]:
        for _ in range(context.choose(150, 2000, 40_000)):
            time, budget = random_time(rng), int(rng.integers(1, 8))
            loads = rng.integers(budget if full else 0, budget + 1, size=int(rng.integers(1, 9)))
            numbers = [int(time.overhead), int(time.per_token), time.free_tokens]
            yield {"time": numbers, "budget": budget, "loads": [int(x) for x in loads]}

    def applies(data: Data) -> bool:
        return _time_of(data).rate_check(data["budget"]).holds

    def bounded(data: Data) -> bool:
        time, b = _time_of(data), data["budget"]
        done, t_b = completed(time, data["loads"]), time.slots(data["budget"])
        pairs = ((i, j) for i in range(len(done)) for j in range(i + 1, len(done)))
        return all(t_b * (done[j] - done[i] - b * slack) <= (j - i) * b for i, j in pairs)

    made = "random batch times with full batches fastest, random sequences of batches"
    printed = refute("(C.8)", made, cases(), verify_c8, applies=applies)
    corrected = examine(
        "(C.8) with b more, between any two slots", made, cases(), bounded, applies
    )
    return printed, corrected


@dataclass(frozen=True)
class Counts:
    """Decode sizes by index, and the decode tokens and requests completed after each batch.

    Parameters
    ----------
    decode : list of int
        ``v_d(i)``.
    history : list of (int, int)
        ``(B_d(n), F_d(n))``, one slot per batch.
    """

    decode: list[int]
    history: list[tuple[int, int]]


def limited_run(
    sizes: Sequence[Sequence[int]], budget: int, k_p: int, k_d: int, starve: bool
) -> Counts:
    """Run requests that all arrive at 0 under a (K_p, K_d)-FCFS policy.

    Decode tokens of the oldest K_d requests in decode come first. Then come the oldest K_p
    prompts: in order of arrival, or those with the fewest tokens left first if ``starve``.
    """
    left = [list(size) for size in sizes]
    history, tokens, requests = [(0, 0)], 0, 0
    while any(d for _, d in left) and len(history) < 500:
        decoding = [i for i, (p, d) in enumerate(left) if p == 0 and d > 0][:k_d]
        prompts = [i for i, (p, _) in enumerate(left) if p > 0][:k_p]
        order = sorted(prompts, key=lambda i: left[i][0]) if starve else prompts
        room = budget
        for i in decoding[:room]:
            left[i][1] -= 1
            tokens, requests, room = tokens + 1, requests + (left[i][1] == 0), room - 1
        for i in order:
            taken = min(room, left[i][0])
            left[i][0] -= taken
            room -= taken
        history.append((tokens, requests))
    return Counts([d for _, d in sizes], history)


def _breaks_c9(counts: Counts, own: int, most: int) -> tuple[int, tuple[int, int, int]] | None:
    """Return the first violation of ``V(F − own + 1) − (own − 1)·max <= B <= V(F + own)``."""

    def first(number: int) -> int:
        return sum(counts.decode[: max(0, number)])

    for n, (tokens, requests) in enumerate(counts.history):
        low = first(requests - own + 1) - (own - 1) * most
        high = first(requests + own)
        if not low <= tokens <= high:
            return n, (low, tokens, high)
    return None


def _limited(data: Data) -> Counts:
    sizes, budget, k_p, k_d = (data[name] for name in ("sizes", "budget", "k_p", "k_d"))
    return limited_run(sizes, budget, k_p, k_d, bool(data["starve"]))


def verify_c9(data: Data) -> str | None:
    """Confirm a (K_p, K_d)-FCFS run that violates the key relationship (C.9) in decode."""
    sizes, budget, k_p, k_d = (data[name] for name in ("sizes", "budget", "k_p", "k_d"))
    if min(budget, k_p, k_d) < 1 or not sizes or any(min(size) < 1 for size in sizes):
        return None
    counts = _limited(data)
    broken = _breaks_c9(counts, k_d, max(counts.decode))
    if broken is None:
        return None
    n, (low, tokens, high) = broken
    return (
        f"K_p = {k_p}, K_d = {k_d}, b = {budget}, (v_p, v_d) = {sizes}, fewest prompt tokens "
        f"first: at n = {n}, F_d = {counts.history[n][1]} and B_d = {tokens} is not within "
        f"{low}..{high}"
    )


@CLAIMS.formula(
    "batching.c9",
    Mutation("K_p = 1, where prompts are done in order", one_prompt=True),
    Mutation("the correction without K_p", with_prompts=False),
    defect=Defect.FORMULA,
    verify=verify_c9,
)
def _c9_check(context: Context, *, one_prompt: bool = False, with_prompts: bool = True) -> Outcome:
    """The key relationship of (K_p, K_d)-FCFS.

    Source: throughput paper, (C.9) (appendix C.1)
    Statement: V_f(F_f − K_f + 1) − (K_f − 1) max v_f ≤ B_f ≤ V_f(F_f + K_f) for both phases, with
        V_f the tokens of the requests that arrived first.
    Formula: V_d(F_d − K_d + 1) − (K_d − 1) max v_d ≤ B_d ≤ V_d(F_d + K_d)
    Assumes: a (K_p, K_d)-FCFS algorithm; requests are indexed by arrival
    Summary: With K_p ≥ 2 a prompt may be overtaken by all later ones, so that the requests that
        decode first are not those that arrived first; the relation in decode knows K_d only.
    Correction: In decode with K_p + K_d − 1 in place of K_d: of the requests up to the last one
        that decoded, at most K_p − 1 are still in prefill and K_d − 1 still in decode.
    """
    rng = context.rng

    def cases() -> Iterator[Data]:
        for _ in range(context.choose(200, 3000, 60_000)):
            sizes = [
                [int(rng.integers(1, 12)), int(rng.integers(1, 12))]
                for _ in range(int(rng.integers(1, 7)))
            ]
            yield {
                "sizes": sizes,
                "budget": int(rng.integers(1, 6)),
                "k_p": 1 if one_prompt else int(rng.integers(1, 4)),
                "k_d": int(rng.integers(1, 4)),
                "starve": int(rng.integers(0, 2)),
            }

    def holds(data: Data) -> bool:
        counts = _limited(data)
        own = data["k_d"] + (data["k_p"] - 1 if with_prompts else 0)
        return _breaks_c9(counts, own, max(counts.decode)) is None

    made = "random requests, budgets, K_p and K_d; prompts in order or fewest tokens first"
    printed = refute("(C.9) for decode", made, cases(), verify_c9)
    corrected = examine("(C.9) with K_p + K_d − 1 for K_d in decode", made, cases(), holds)
    return printed, corrected


def verify_lemma2(data: Data) -> str | None:
    """Confirm initial states for which W_d and m_d Z_d, scaled, stay apart at time 0.

    State k has one request, with k·left tokens to decode: |x| = k·left, scaled ``W_d(0) = 1`` and
    ``m_d Z_d(0) = m_d/(k·left)``.
    """
    left, mean = data["left"], data["mean_decode"]
    if min(left, mean) < 1:
        return None
    gaps = [1 - Fraction(mean, k * left) for k in (1000, 10_000)]
    if min(gaps) <= Fraction(1, 2):
        return None
    return (
        f"states with a single request of {left}k decode tokens, m_d = {mean}: the scaled W_d(0) "
        f"is 1 and m_d Z_d(0) is {1 - gaps[-1]} for k = 10,000, so that (C.29) fails at t = 0"
    )


def most_left_first(queue: Queue, budget: int) -> Batch:
    """A non-FCFS policy: prompts first, then decode tokens, most tokens left first."""
    order = sorted(range(len(queue)), key=lambda i: (queue[i][0] == 0, -queue[i][1]))
    return fill(queue, budget, order)


def _fresh_gap(size: tuple[int, int], number: int, budget: int, policy: Policy) -> Fraction:
    """Return ``max_n |W_d(n) − v_d Z_d(n)| / |x|`` from ``number`` equal fresh requests on."""
    engine = simple_engine(budget, size)
    state, worst = State(0, (size,) * number), 0
    while state.queue:
        in_decode = [d for p, d in state.queue if p == 0]
        worst = max(worst, abs(sum(in_decode) - size[1] * len(in_decode)))
        state = engine.step(state, policy(state.queue, budget))
    return Fraction(worst, number * sum(size))


@CLAIMS.result(
    "batching.lemma2",
    Mutation("a mean above all tokens of the states", fresh=False),
    Mutation(
        "decode tokens of whoever has most left first, not FCFS",
        policies=(sarathi, most_left_first),
    ),
    defect=Defect.HYPOTHESIS,
    verify=verify_lemma2,
)
def _lemma2_check(
    context: Context, *, policies: tuple[Policy, ...] = (sarathi, orca), fresh: bool = True
) -> Outcome:
    """Workload and counts in the limit.

    Source: throughput paper, Lemma 2 and (C.29) (appendix C.3)
    Statement: Along any sequence of initial states with (C.23) and (C.24) the scaled processes
        converge, with W_f(t) = m_f Z_f(t) in the limit.
    Formula: lim W_f^{x_k} = m_f lim Z_f^{x_k}
    Assumes: a (K_p, K_d)-FCFS algorithm; |x_k| → ∞, the number of tokens
    Summary: A state may hold one request with ever more tokens left: its workload is all of |x|,
        its count nothing. Such a request needs as many batches as it has tokens, at whatever b;
        appendix B has a quadratic term for it.
    Correction: For states of fresh requests, whose tokens left have the means of new ones but for
        finitely many: of one size, the gap is at most b v_d in any slot.
    """
    rng, numbers = context.rng, context.choose((8, 32), (16, 64), (32, 256))
    states = [
        {"left": int(x), "mean_decode": int(y)}
        for x, y in rng.integers(1, 40, size=(context.choose(20, 100, 1000), 2))
    ]
    if not fresh:
        states = [{"left": 1, "mean_decode": 10**6}]
    printed = refute(
        "(C.29) at t = 0", "states with one request of k, 2k, ... tokens", states, verify_lemma2
    )
    cases = [
        ((int(p), int(d)), int(b), policy)
        for p, d, b in rng.integers(1, 5, size=(context.choose(5, 20, 100), 3))
        for policy in policies
    ]

    def shrinks(case: tuple[tuple[int, int], int, Policy]) -> bool:
        size, budget, policy = case
        most = Fraction(budget * size[1], sum(size))
        return all(_fresh_gap(size, n, budget, policy) <= most / n for n in numbers)

    corrected = examine(
        "from fresh requests of one size the gap is at most b v_d / |x|",
        f"Sarathi-Serve and Orca, t = 1, {numbers[0]} and {numbers[-1]} requests, whole runs",
        cases,
        shrinks,
    )
    return printed, corrected
