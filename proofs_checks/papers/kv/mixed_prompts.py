"""Equation (2) and the break where each request has its own prompt, as in section 7."""

from collections.abc import Callable, Sequence
from functools import partial

from proofs_checks.claim import Claim, Context, Defect, Kind, Mutation
from proofs_checks.evidence import Data, Outcome, Verifier
from proofs_checks.papers.kv.model import CONVENTIONS, jobs, problem_of, selected
from proofs_checks.papers.kv.selection import breaking_is_scanning_on
from proofs_checks.papers.kv.states import State, most_together, random_state
from proofs_checks.search import examine, refute

#: A statement about one state of the worker.
Statement = Callable[[State], bool]


def largest_is_found(state: State) -> bool:
    """Whether the ascending scan starts as many as any subset."""
    return len(selected(state.memory, state.running, state.waiting)) == most_together(state)


def empty_workers(memory: int, requests: Sequence[Sequence[int]]) -> list[State]:
    """Return the empty worker before requests (s, o), under each of the three conventions."""
    prompts, outputs = zip(*sorted(requests, key=lambda row: row[1]), strict=True)
    states = []
    for convention in CONVENTIONS:
        data = jobs(problem_of(memory, prompts, outputs, convention))
        states.append(State(memory, (), tuple(map(data.load, range(len(prompts))))))
    return states


def _read(data: Data) -> list[State]:
    rows = data["requests"]
    if not rows or min(min(row) for row in rows) < 1:
        raise ValueError("no request, or an empty one")
    if any(s + o > data["memory"] for s, o in rows):
        raise ValueError("a request that never fits")
    if len({o for _, o in rows}) < len(rows):
        raise ValueError("equal outputs: then the order of the scan is open")
    return empty_workers(data["memory"], rows)


def verify_largest(data: Data) -> str | None:
    """Compare the ascending scan with every subset, under every convention."""
    states = _read(data)
    if any(map(largest_is_found, states)):
        return None
    counts = [len(selected(state.memory, (), state.waiting)) for state in states]
    most = [most_together(state) for state in states]
    return f"{_worded(data)}: the scan starts {counts}, {most} fit together"


def verify_break(data: Data) -> str | None:
    """Compare the scan that breaks with the one that goes on, under every convention."""
    states = _read(data)
    if any(map(breaking_is_scanning_on, states)):
        return None
    stops = [len(selected(state.memory, (), state.waiting)) for state in states]
    goes = [len(selected(state.memory, (), state.waiting, scan_on=True)) for state in states]
    return f"{_worded(data)}: breaking starts {stops}, going on {goes}"


def _worded(data: Data) -> str:
    return f"M = {data['memory']}, empty worker, (s, o) = {data['requests']}, conventions A, B, C"


def _drawn(context: Context, *, common: bool) -> Data:
    """Draw three requests of different outputs, each of which fits alone."""
    memory = int(context.rng.integers(6, 11))
    outputs = context.rng.permutation(memory // 2)[:3] + 1
    prompts = context.rng.integers(1, memory - memory // 2 + 1, 1 if common else 3)
    pairs = zip((0 * outputs + prompts).tolist(), outputs.tolist(), strict=True)
    return {"memory": memory, "requests": [list(pair) for pair in pairs]}


def _check(
    context: Context,
    *,
    holds: Statement,
    verify: Verifier,
    what: str,
    common: bool = False,
    corrected: str = "agreeable",
) -> Outcome:
    count = context.choose(500, 3000, 30_000)
    draws = [_drawn(context, common=common) for _ in range(count)]
    states = [random_state(context.rng, corrected) for _ in range(count)]
    return refute(
        f"{what}, under one convention at least",
        "three random requests of different outputs on an empty worker",
        draws,
        verify,
    ), examine(
        f"{what}, prompts that grow with the outputs",
        "random states",
        states,
        holds,
        lambda state: bool(state.waiting),
    )


def _claim(name: str, texts: tuple[str, ...], holds: Statement, verify: Verifier) -> Claim:
    source, title, statement, formula, what, correction = texts
    check = partial(_check, holds=holds, verify=verify, what=what)
    return Claim(
        id=f"kv.{name}",
        source=f"KV-cache paper, {source}",
        title=title,
        statement=statement,
        formula=formula,
        hypotheses=("a prompt s_i for each request", "outputs known", "s_i + o_i ≤ M"),
        kind=Kind.COUNTEREXAMPLE,
        check=check,
        summary="A short output with a large prompt blocks longer ones with small prompts.",
        mutations=(
            Mutation("common prompts only", common=True),
            Mutation("any prompts in the correction", corrected="mixed"),
        ),
        correction=correction,
        defect=Defect.INFERENCE,
        reading="implied, not printed: section 4 states it for a common prompt, section 7 uses "
        "the algorithm with a prompt for each request. A counterexample is one under every "
        "convention and has no two equal outputs.",
        verify=verify,
    )


CLAIMS = (
    _claim(
        "eq2-mixed",
        (
            "Equation (2) with the prompts s_i of section 7",
            "Ascending outputs with mixed prompts",
            "Where prompts differ, as in the experiments, the ascending scan still solves (2).",
            "|U_greedy| = max {|U| : (1) with s_i in place of s}",
            "|U| is the largest",
            "It does if prompts agree with outputs (a longer output, no smaller prompt): then an "
            "earlier request needs no more at any slot. In general (2) is a program of its own.",
        ),
        largest_is_found,
        verify_largest,
    ),
    _claim(
        "break-mixed",
        (
            "Algorithm 2 with the prompts s_i of section 7",
            "Break and continue with mixed prompts",
            "Where prompts differ, stopping at the first failure still loses nothing.",
            "U(break) = U(continue) with s_i in place of s",
            "break = continue",
            "It loses nothing if prompts agree with outputs (a longer output, no smaller prompt).",
        ),
        breaking_is_scanning_on,
        verify_break,
    ),
)
