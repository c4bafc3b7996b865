"""Definitions of the memory limit: section 2.3, section 3, Equation (1), appendix B.1."""

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import TypeAlias

import numpy as np

from formulations.hindsight_latency import Convention, LatencyProblem, violations
from proofs_checks.claim import Claims, Context, Defect, Mutation
from proofs_checks.evidence import Data, Outcome
from proofs_checks.papers.kv.model import Jobs, peak, problem_of
from proofs_checks.search import examine, refute

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

    def fits(pair: tuple[int, int, int, int]) -> bool:
        memory, prompt, first, second = pair
        lengths = (first - prompt + 1, second - prompt + 1)
        return peak(Jobs(memory, (0, 0), (prompt, prompt), lengths), (0, 0)) <= memory

    return examine(
        "P1 and P2 together never exceed M",
        f"all s ≤ t_1 ≤ M/2, t_1 ≤ t_2 ≤ M up to M = {largest}",
        _pairs(largest, most),
        fits,
        applies=lambda pair: pair[2] + pair[3] > pair[0],
    )


# Three memory rules.
def _section_3(output: int) -> tuple[int, int]:
    # S has the requests that are processed and still need a token, not the prompts of this round.
    return 1, output


def _equation_1(output: int) -> tuple[int, int]:
    return 0, output


def _appendix_b1(output: int) -> tuple[int, int]:
    return 0, output - 1


RULES: dict[str, Ages] = {
    "section 3": _section_3,
    "Equation (1)": _equation_1,
    "appendix B.1": _appendix_b1,
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
_SIZES = ((2, 2), (3, 3), (5, 5))


def _schedules(context: Context) -> Iterator[Schedule]:
    """Yield every schedule of two requests with a common prompt, up to a size."""
    longest, latest = context.choose(*_SIZES)
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


def verify_rules(data: Data) -> str | None:
    """Return which of the three printed rules allow a schedule, if they disagree."""
    prompts, outputs, starts = zip(*data["requests"], strict=True)
    if min(prompts) < 1 or len(set(prompts)) > 1 or min(outputs) < 1 or min(starts) < 0:
        return None
    if prompts[0] + max(outputs) > data["memory"]:
        return None
    allow = [
        n for n, ages in RULES.items() if within(data["memory"], prompts, outputs, starts, ages)
    ]
    if len(allow) in (0, len(RULES)):
        return None
    refuse = [name for name in RULES if name not in allow]
    return (
        f"M = {data['memory']}, (s, o, start) = {data['requests']}: allowed by "
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

    def alike(schedule: Schedule) -> bool:
        return len({_allowed(schedule, rule) for rule in RULES}) == 1

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

    longest, latest = context.choose(*_SIZES)
    made = (
        f"every schedule of two requests with a common prompt s = 1, 2, o up to {longest}, M up "
        f"to {3 + 2 * longest}, the second up to {latest} rounds later"
    )
    printed = refute(
        "the three rules allow the same schedules",
        made,
        _schedules(context),
        verify_rules,
        lambda s: {
            "memory": s[0].memory,
            "requests": np.stack([s[0].prompt, s[0].output, s[1]], 1).tolist(),
        },
        holds=alike,
    )
    corrected = examine(
        "(1) with o is B.1 with o + 1; section 3 with s is B.1 with s + 1; each allows less",
        made,
        _schedules(context),
        related,
    )
    same = examine("conventions A, B, C of the checker", made, _schedules(context), ours)
    return printed, corrected, same
