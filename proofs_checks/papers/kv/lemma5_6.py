"""Lemma 5.6: overloaded systems. Proof: ``proofs/lemma5.6.md``."""

from collections.abc import Iterator
from itertools import accumulate, product

from formulations.hindsight_latency import Convention, LatencyProblem
from proofs_checks.claim import Claims, Context, Defect, Mutation
from proofs_checks.evidence import Outcome
from proofs_checks.papers.kv.bursts import ARRIVALS, Burst, verify_queue
from proofs_checks.papers.kv.model import algorithm, jobs, optima, problem_of
from proofs_checks.search import examine, refute

CLAIMS = Claims()


#: Convention, memory, prompt and unit of time where one request at a time fits; outputs that
#: occupy one, two and three units.
_ONE_AT_A_TIME = (
    (Convention.PRINTED, 7, 4, 1, (1, 2, 3)),
    (Convention.HALF_OPEN, 8, 5, 1, (1, 2, 3)),
    (Convention.CLOSED, 11, 6, 2, (1, 3, 5)),
)


def queued(convention_index: int, others: int, length: int) -> Burst:
    """Return the family of lemma5.6.md: J of two units, others of three, a burst of units."""
    convention, memory, prompt, unit, (one, two, three) = _ONE_AT_A_TIME[convention_index]
    present = (two, *[three] * others)
    return Burst(convention, memory, prompt, present, one, 1, 3 * unit, unit, length)


#: Short and long requests that a round brings.
Round = tuple[int, int]


def stream(convention_index: int, rounds: tuple[Round, ...]) -> LatencyProblem:
    """Return J of three units in round 0, then what rounds 1, 2, ... bring."""
    convention, memory, prompt, _, (one, _, three) = _ONE_AT_A_TIME[convention_index]
    arrivals, outputs = [0], [three]
    for now, (short, long) in enumerate(rounds, 1):
        arrivals += [now] * (short + long)
        outputs += [one] * short + [three] * long
    return problem_of(memory, [prompt] * len(outputs), outputs, convention, arrivals)


def overloaded(rounds: tuple[Round, ...], behind: int = 0) -> bool:
    """Whether short ones never run out, and outnumber the long ones by two with J."""
    short, long = (sum(column) for column in zip(*rounds, strict=True))
    never_out = all(
        done >= now - behind for now, done in enumerate(accumulate(s for s, _ in rounds), 1)
    )
    return never_out and short >= long + 3


def _streams(context: Context, behind: int) -> Iterator[tuple[int, tuple[Round, ...]]]:
    kinds = context.choose((0,), (0, 1), (0, 1, 2))
    most = context.choose(5, 6, 7)
    for length, kind in product(range(1, most - 1), kinds):
        for rounds in product(((0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (3, 0)), repeat=length):
            if sum(map(sum, rounds)) < most and overloaded(rounds, behind):
                yield kind, rounds


def _outlasts(case: tuple[int, tuple[Round, ...]]) -> bool:
    """Whether Algorithm 2 starts J at once, and every optimum after all short ones."""
    kind, rounds = case
    data, unit = jobs(stream(kind, rounds)), _ONE_AT_A_TIME[kind][3]
    after = 1 + unit * sum(short for short, _ in rounds)
    return algorithm(data)[0] == 0 and all(starts[0] >= after for starts in optima(data))


@CLAIMS.result(
    "kv.lemma5.6",
    Mutation("one other request in the queue", others=1),
    Mutation("one round later in the correction", later=1),
    Mutation("short ones may run out in the correction", behind=1),
    hypotheses=(*ARRIVALS, "λ > μ*"),
    defect=Defect.RESULT,
    verify=verify_queue,
    proof="lemma5.6",
)
def _lemma56_check(
    context: Context, *, others: int = 2, later: int = 0, behind: int = 0
) -> Outcome:
    """OFF catches up in an overloaded system.

    Source: KV-cache paper, Lemma 5.6 (section 5.1)
    Statement: If λ > μ*, there is t_0 such that for t ≥ t_0 OFF completes S_ON ∪ U within a
        constant C_2 of rounds, with probability 1 − O(1/T).
    Formula: λ > μ*  ⇒  Pr(t̂ − t ≤ C_2) ≥ 1 − O(1/T) for t ≥ t_0
    Summary: With a queue of long requests the optimum starts one of them that just fits the time
        before a burst of short ones, and the shorter one that Algorithm 2 starts only after the
        burst, however long it is.
    Reading: for each fixed t, as T grows: so is the lemma printed, with constants t_0 and C_2. The
        probability found falls with t; the printed proof argues with a backlog that grows with t.
    Correction: For every t there is a positive probability, independent of T, of t̂ − t ≥ 5 + L,
        for every L ≥ 3 (one request at a time; units of one, J of two, others of three rounds),
        and, where short requests alone overload the worker, of t̂ − t > T − t: no C_2 = o(T) is
        enough, K·log T neither. For t that grows with T it is open; among equal requests OFF must
        then be taken to serve those first that Algorithm 2 has started, else t̂ − t is not bounded
        at all.
    """
    lengths = context.choose((3, 4), (3, 4, 5), (3, 4, 5))
    kinds = context.choose((0, 1), (0, 1, 2), (0, 1, 2))
    printed = refute(
        "the optimum serves what Algorithm 2 has started before the end of a burst",
        "one request of two units and two of three in round 0, then a burst of units; one fits at "
        "a time; conventions B and C (normal also A), all optimal schedules",
        [queued(kind, others, 4) for kind in kinds],
        verify_queue,
        Burst.to_data,
    )
    corrected = examine(
        "it starts right after the burst, in round 3 + L (units), for every L ≥ 3",
        "the same with two and three others",
        [
            queued(kind, n, length)
            for kind in (0, 1)
            for n in (2, 3)
            for length in lengths
            if n + length <= context.choose(6, 7, 7)
        ],
        lambda burst: burst.starts() == {burst.last + burst.period + later},
    )
    never = examine(
        "under a stream of short ones that never runs out it starts after the last of them",
        "every stream that meets theorem 2, up to 5 requests (normal 6, and convention C), all "
        "optimal schedules",
        _streams(context, behind),
        _outlasts,
    )
    return printed, corrected, never
