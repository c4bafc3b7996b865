"""The memory limit in its four definitions, and the integer program of appendix B.1 row by row."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import TypeAlias

import numpy as np

from formulations.hindsight_latency import (
    Convention,
    LatencyProblem,
    LatencyProgram,
    brute_force,
    total_latency,
    violations,
)
from proofs_checks.claim import Claims, Context, Defect, Effort, Kind, Mutation
from proofs_checks.evidence import Data, Outcome, dismiss_if, verifier
from proofs_checks.papers.kv.model import Jobs, as_data, from_data, peak, problem_of
from proofs_checks.search import examine

CLAIMS = Claims()


#: A problem and a start for each request.
Schedule: TypeAlias = tuple[LatencyProblem, tuple[int, ...]]


#: First and last age, ``t − p``, at which a request of output o holds memory.
Ages: TypeAlias = Callable[[int], tuple[int, int]]


# Section 2.3: two requests that grow.
def _pairs(largest: int, most: Callable[[int], int]) -> Iterator[tuple[int, int, int, int]]:
    for memory in range(2, largest + 1):
        for first in range(1, most(memory) + 1):
            for second in range(first, memory + 1):
                for prompt in range(1, first + 1):
                    yield memory, prompt, first, second


@CLAIMS.remark("kv.section2.3", Mutation("t_1 up to M", most=lambda memory: memory))
def _together_check(
    context: Context, *, most: Callable[[int], int] = lambda memory: memory // 2
) -> Outcome:
    """Growing requests fit together where fixed ones would not.

    Source: KV-cache paper, section 2.3
    Statement: Two requests of the same prompt s whose sizes grow to t_1 ≤ M/2 and t_2 ≤ M can be
        processed at the same time even if t_1 + t_2 > M.
    Formula: s ≤ t_1 ≤ M/2, t_1 ≤ t_2 ≤ M  ⇒  both started together never exceed M
    Assumes: each grows by 1 per round; memory is freed on completion
    Summary: Until t_1 − s both hold at most t_1 each; then P2 is alone.
    """
    largest = context.choose(12, 24, 40)

    def fits(memory: int, prompt: int, first: int, second: int) -> bool:
        lengths = (first - prompt + 1, second - prompt + 1)
        return peak(Jobs(memory, (0, 0), (prompt, prompt), lengths), (0, 0)) <= memory

    return examine(
        "P1 and P2 together never exceed M",
        f"all s ≤ t_1 ≤ M/2, t_1 ≤ t_2 ≤ M up to M = {largest}",
        _pairs(largest, most),
        fits,
        applies=lambda memory, _, first, second: first + second > memory,
    )


# Three memory rules.
RULES: dict[str, Ages] = {
    # S has the requests that are processed and still need a token, not the prompts of this round.
    "section 3": lambda output: (1, output),
    "Equation (1)": lambda output: (0, output),
    "appendix B.1": lambda output: (0, output - 1),
}


def within(
    memory: int, prompts: Sequence[int], outputs: Sequence[int], starts: Sequence[int], ages: Ages
) -> bool:
    """Whether ``Σ (s + t − p)`` over the requests that hold memory is at most M at every round."""
    tokens: dict[int, int] = {}
    for prompt, output, start in zip(prompts, outputs, starts, strict=True):
        low, high = ages(output)
        for age in range(low, high + 1):
            tokens[start + age] = tokens.get(start + age, 0) + prompt + age
    return all(held <= memory for held in tokens.values())


#: Longest output and latest start of the second request: quick, normal, deep.
_RULE_SIZES = ((2, 2), (3, 3), (5, 5))


def _schedules(context: Context) -> Iterator[Schedule]:
    """Yield every schedule of two requests with a common prompt, up to a size."""
    longest, latest = context.choose(*_RULE_SIZES)
    for prompt, memory in product((1, 2), range(3, 4 + 2 * longest)):
        for outputs in product(range(1, longest + 1), repeat=2):
            if prompt + max(outputs) <= memory:
                problem = problem_of(memory, [prompt] * 2, outputs)
                for start in range(latest + 1):
                    yield problem, (0, start)


def _allowed(schedule: Schedule, rule: str, more_prompt: int = 0, more_output: int = 0) -> bool:
    problem, starts = schedule
    prompts = [s + more_prompt for s in problem.prompt.tolist()]
    outputs = [o + more_output for o in problem.output.tolist()]
    return within(problem.memory, prompts, outputs, starts, RULES[rule])


@verifier
def verify_rules(memory: int, requests: list[list[int]]) -> str:
    """Return which of the three printed rules allow a schedule, if they disagree."""
    prompts, outputs, starts = zip(*requests, strict=True)
    dismiss_if(min(prompts) < 1 or len(set(prompts)) > 1 or min(outputs) < 1 or min(starts) < 0)
    dismiss_if(prompts[0] + max(outputs) > memory)
    allow = [n for n, ages in RULES.items() if within(memory, prompts, outputs, starts, ages)]
    dismiss_if(len(allow) in (0, len(RULES)))
    refuse = [name for name in RULES if name not in allow]
    return (
        f"M = {memory}, (s, o, start) = {requests}: allowed by "
        f"{', '.join(allow)}; forbidden by {', '.join(refuse)}"
    )


@CLAIMS.own(
    "kv.memory-rules",
    Mutation("(1) taken for B.1 with the same o", longer=0),
    Mutation("section 3 taken for B.1 with the same s", larger=0),
    defect=Defect.INFERENCE,
    verify=verify_rules,
)
def _rules_check(context: Context, *, longer: int = 1, larger: int = 1) -> Outcome:
    """Three statements of the memory limit.

    Source: KV-cache paper, section 3, Equation (1) and appendix B.1, constraint 3
    Statement: The limit of section 3, that of Equation (1) and that of the integer program are one
        rule.
    Formula: Σ_{S(t)} (s + a_i) ≤ M  ⇔  (1)  ⇔  Σ (s + t − p_i)·y_{i,t} ≤ M
    Assumes: a common prompt s; requests that fit alone
    Summary: Section 3 leaves out the prompts of the round, B.1 the last token; an algorithm under
        one rule must not be compared with an optimum under another.
    Reading: implied, not printed as a statement: the paper gives the limit three times, as one. A
        schedule is allowed by a rule if it keeps M at every round.
    Correction: They are three conventions: a request started at p holds s + t − p tokens for p ≤ t
        ≤ p + o in (1), for p + 1 ≤ t ≤ p + o in section 3, for p ≤ t ≤ p + o − 1 in B.1. (1) for
        (s, o) is B.1 for (s, o + 1), section 3 is B.1 for (s + 1, o), and OPT of B.1 ≤ OPT of
        section 3 ≤ OPT of (1).
    """

    def related(schedule: Schedule) -> bool:
        by_section, by_equation, by_program = (_allowed(schedule, rule) for rule in RULES)
        return (
            by_equation == _allowed(schedule, "appendix B.1", more_output=longer)
            and by_section == _allowed(schedule, "appendix B.1", more_prompt=larger)
            and by_equation <= by_section <= by_program
        )

    def ours(schedule: Schedule) -> bool:
        # `formulations` has a convention for each rule.
        problem, starts = schedule
        columns = problem.memory, problem.prompt.tolist(), problem.output.tolist()
        return all(
            _allowed(schedule, rule) == (not violations(problem_of(*columns, c), starts))
            for rule, c in zip(
                RULES, (Convention("C"), Convention("A"), Convention("B")), strict=True
            )
        )

    longest, latest = context.choose(*_RULE_SIZES)
    made = (
        f"every schedule of two requests with a common prompt s = 1, 2, o up to {longest}, M up "
        f"to {3 + 2 * longest}, the second up to {latest} rounds later"
    )
    printed = context.refute(
        "the three rules allow the same schedules",
        made,
        _schedules(context),
        lambda problem, starts: {
            "memory": problem.memory,
            "requests": np.stack([problem.prompt, problem.output, starts], 1).tolist(),
        },
        holds=lambda *schedule: len({_allowed(schedule, rule) for rule in RULES}) == 1,
    )
    corrected = examine(
        "(1) with o is B.1 with o + 1; section 3 with s is B.1 with s + 1; each allows less",
        made,
        _schedules(context),
        related,
    )
    same = examine("conventions A, B, C of the checker", made, _schedules(context), ours)
    return printed, corrected, same


#: Longest output and largest prompt: quick, normal, deep.
_SIZES = ((2, 2), (3, 3), (4, 4))


def _domain(context: Context) -> str:
    longest, largest = context.choose(*_SIZES)
    return (
        f"two requests with a common prompt s up to {largest}, o up to {longest}, M up to "
        f"{largest + longest}, both at 0 or the second a round later"
    )


def _program_problems(context: Context) -> Iterator[LatencyProblem]:
    """Yield every problem of `_domain`."""
    longest, largest = context.choose(*_SIZES)
    for prompt, memory in product(range(1, largest + 1), range(1, largest + longest + 1)):
        for outputs in product(range(1, longest + 1), repeat=2):
            if prompt + max(outputs) <= memory:
                for arrivals in ((0, 0), (0, 1)):
                    yield problem_of(memory, [prompt] * 2, outputs, Convention.PRINTED, arrivals)


def _program_schedules(context: Context) -> Iterator[Schedule]:
    for problem in _program_problems(context):
        for delays in product(range(3), repeat=2):
            yield (
                problem,
                tuple(a + d for a, d in zip(problem.arrival.tolist(), delays, strict=True)),
            )


def _made(context: Context) -> str:
    return f"every schedule of {_domain(context)}, starts up to two rounds late"


def _with_starts(problem: LatencyProblem, starts: tuple[int, ...]) -> Data:
    rows = as_data(problem)["requests"]
    return {
        "memory": problem.memory,
        "requests": [[*row, start] for row, start in zip(rows, starts, strict=True)],
    }


def _read_schedule(data: Data) -> Schedule:
    rows = [row[:3] for row in data["requests"]]
    problem = from_data({"memory": data["memory"], "requests": rows, "convention": "B"})
    starts = tuple(row[3] for row in data["requests"])
    if any(p < a for p, a in zip(starts, problem.arrival.tolist(), strict=True)):
        raise ValueError("a start before its arrival")
    if any(s + o > problem.memory for _, s, o in rows):
        raise ValueError("a request that never fits")
    return problem, starts


def printed_objective(problem: LatencyProblem, starts: tuple[int, ...]) -> int:
    """Return ``Σ_i (Σ_t t·x_{i,t} + o_i)``."""
    return sum(p + o for p, o in zip(starts, problem.output.tolist(), strict=True))


@verifier
def verify_objective(data: Data) -> str:
    """Confirm that the printed objective of a schedule differs from its total latency."""
    schedule = _read_schedule(data)
    objective, latency = printed_objective(*schedule), total_latency(*schedule)
    dismiss_if(objective == latency)
    return (
        f"(arrival, s, o, start) = {data['requests']}: objective {objective}, "
        f"total latency {latency}"
    )


@CLAIMS.formula(
    "kv.appendix-b1-objective",
    Mutation("Σ a_i taken off twice", share=2),
    defect=Defect.FORMULA,
    verify=verify_objective,
)
def _objective_check(context: Context, *, share: int = 1) -> Outcome:
    """The objective of the program.

    Source: KV-cache paper, appendix B.1
    Statement: The objective Σ (p_i + o_i) is the total end-to-end latency.
    Formula: Σ_i (Σ_t t·x_{i,t} + o_i) = Σ_i (c_i − a_i)
    Assumes: c_i = p_i + o_i; o_i ≤ M − s
    Summary: A constant of the instance: the optimal schedules are the same, ratios are not.
    Correction: It exceeds the total latency by Σ a_i, a constant of the instance: what minimizes
        the one minimizes the other.
    """

    def latency(schedule: Schedule) -> bool:
        return printed_objective(*schedule) == total_latency(*schedule)

    def shifted(schedule: Schedule) -> bool:
        arrivals = int(schedule[0].arrival.sum())
        return printed_objective(*schedule) - share * arrivals == total_latency(*schedule)

    schedules = list(_program_schedules(context))
    domain = context.domain(_made(context), schedules)
    printed = domain.refute("objective = total latency", _with_starts, holds=latency)
    corrected = domain.examine("objective − Σ a_i = total latency", shifted)
    return printed, corrected


def fits_from(first: int, problem: LatencyProblem, starts: tuple[int, ...]) -> bool:
    """Whether constraint 3, ``Σ (s + t − p_i)·y_{i,t} ≤ M``, holds from round ``first`` on."""
    columns = list(zip(problem.prompt.tolist(), problem.output.tolist(), starts, strict=True))
    end = max(p + o for _, o, p in columns)
    return all(
        sum((s + t - p) * running(p, o, t) for s, o, p in columns) <= problem.memory
        for t in range(first, end + 1)
    )


def running(start: int, output: int, now: int) -> int:
    """``y_{i,t} = Σ_k x_{i,k}·1{t − k < o_i}`` of constraint 2, where x is 1 at the start."""
    return sum(int(k == start) * int(now - k < output) for k in range(now + 1))


@verifier
def verify_round_0(data: Data) -> str:
    """Check that a schedule meets the rows of rounds 1..T and violates that of round 0."""
    schedule = _read_schedule(data)
    dismiss_if(not fits_from(1, *schedule) or fits_from(0, *schedule))
    return (
        f"M = {data['memory']}, (arrival, s, o, start) = {data['requests']}: the rows of rounds "
        "1..T hold, and round 0 exceeds M"
    )


@CLAIMS.formula(
    "kv.appendix-b1-round0",
    Mutation("rows from round 1 on in the correction", first=1),
    defect=Defect.MISPRINT,
    verify=verify_round_0,
)
def _round_0_check(context: Context, *, first: int = 0) -> Outcome:
    """Memory rows for t in [T].

    Source: KV-cache paper, appendix B.1, constraint 3
    Statement: With constraint 3 for every t ∈ [T] the memory is never exceeded.
    Formula: Σ_i (s + t − p_i)·y_{i,t} ≤ M for t = 1..T
    Assumes: starts from round 0 on, as p_i = Σ_{t=0}^T t·x_{i,t} has them; o_i ≤ M − s
    Summary: Requests that start at 0 with o = 1 are gone by round 1, so no row limits them.
    Correction: Rows are needed from t = 0 on. That is what is meant: the same appendix sums p_i
        from t = 0, and the requests of the semi-online model arrive at 0.
    """
    schedules = list(_program_schedules(context))

    def legal(problem: LatencyProblem, starts: tuple[int, ...]) -> bool:
        return not violations(problem, starts)

    domain = context.domain(_made(context), schedules)
    printed = domain.refute(
        "rows of rounds 1..T keep the memory",
        _with_starts,
        holds=legal,
        applies=partial(fits_from, 1),
    )
    corrected = domain.examine("rows of rounds 0..T do", legal, partial(fits_from, first))
    return printed, corrected


@CLAIMS.formula(
    "kv.appendix-b1-running",
    Mutation("nothing runs in its last round", late=1),
    kind=Kind.IDENTITY,
)
def _running_check(context: Context, *, late: int = 0) -> Outcome:
    """Running status and product.

    Source: KV-cache paper, appendix B.1, constraints 2 to 4
    Statement: Constraint 4 (nothing runs after its completion) follows from constraint 2, and the
        product in constraint 3 is linear in x.
    Formula: y_{i,t} = Σ_k x_{i,k}·1{t−k<o_i};  (s+t−p_i)·y_{i,t} = Σ_k (s+t−k)·1{t−k<o_i}·x_{i,k}
    Assumes: each request starts once
    Summary: x has a single 1, so the product of start and status in constraint 3 is linear in x,
        and constraint 4 and the variables y can be left out.
    Reading: the linear form is ours; it is what `formulations.hindsight_latency` states.
    """

    def linear(problem: LatencyProblem, starts: tuple[int, ...]) -> bool:
        columns = zip(problem.prompt.tolist(), problem.output.tolist(), starts, strict=True)
        return all(
            (s + t - p) * running(p, o, t)
            == sum((s + t - k) * int(t - k < o) * int(k == p) for k in range(t + 1))
            and not (t - p >= o - late and running(p, o, t))
            for s, o, p in columns
            for t in range(p + o + 3)
        )

    return examine(
        "constraint 2 implies 4, and (s + t − p)·y = Σ_k (s + t − k)·1{t − k < o}·x_k",
        _made(context),
        _program_schedules(context),
        linear,
    )


@CLAIMS.formula("kv.appendix-b1", Mutation("rows from round 1 on", first=1))
def _program_check(context: Context, *, first: int = 0) -> Outcome:
    """The hindsight optimum as an integer program.

    Source: KV-cache paper, appendix B.1
    Statement: The integer program of appendix B.1 gives the hindsight optimum.
    Formula: min Σ (Σ_t t·x_{i,t} + o_i) s.t. constraints 1 to 4
    Assumes: no pausing; T large enough; rows from round 0 (kv.appendix-b1-round0)
    Summary: Enumeration of all start vectors up to T = max a + Σ o, which no optimum exceeds.
    Reading: less Σ a_i (kv.appendix-b1-objective); optimum under the convention of this program.
    """
    problems = list(_program_problems(context))

    def enumerated(problem: LatencyProblem) -> bool:
        last = sum(problem.output.tolist()) + int(problem.arrival.max())
        windows = [range(a, last + 1) for a in problem.arrival.tolist()]
        candidates = ((problem, starts) for starts in product(*windows))
        least = min(printed_objective(*c) for c in candidates if fits_from(first, *c))
        return least - int(problem.arrival.sum()) == brute_force(problem)[0]

    def by_solver(problem: LatencyProblem) -> bool:
        """Return whether the optimum equals that of the program with one kind per request."""
        program = LatencyProgram(problem, aggregate=False)
        return program.solved().objective == brute_force(problem)[0]

    made = f"every instance of {_domain(context)}"
    literal = examine(
        "least objective over the printed rows (from round 0) = optimum",
        made,
        problems,
        enumerated,
    )
    if context.effort is Effort.QUICK:
        return literal
    solved = problems[:: context.choose(1, 14, 3)]
    by_program = examine(
        "CP-SAT on the stated program = optimum",
        f"{len(solved)} of these instances, evenly spread",
        solved,
        by_solver,
    )
    return literal, by_program
