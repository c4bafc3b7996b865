"""Off-Couple: Lemma 5.4, the inequality before Equation (7), and what (7) is used for."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TypeAlias

from formulations.hindsight_latency import Convention, violations
from proofs_checks.claim import Claims, Context, Defect, Mutation, Scope, texts_of
from proofs_checks.evidence import Data, Findings, Outcome, Verifier
from proofs_checks.papers.kv.model import CONVENTIONS, as_data, present, problem_of
from proofs_checks.papers.kv.moments import (
    FROM_STATE,
    Moment,
    filling_problems,
    read_common,
    rounds_to_see,
)
from proofs_checks.papers.kv.off_couple import Coupling
from proofs_checks.search import Domain, examine

CLAIMS = Claims()

#: A moment and the single optimum from there.
Case: TypeAlias = tuple[Moment, tuple[int, ...]]
#: A condition on a moment and the optimum from there.
Part: TypeAlias = Callable[[Moment, Sequence[int]], bool]


def decides_alike(moment: Moment, offline: Sequence[int]) -> bool:
    """Whether OFF starts at t what Algorithm 2 starts."""
    return moment.started(offline) == moment.started(moment.online)


def puts_off(moment: Moment, offline: Sequence[int]) -> bool:
    """Whether OFF starts nothing at t but what Algorithm 2 starts: V ⊂ S_ON ∪ U."""
    return moment.started(offline) <= moment.started(moment.online)


def always(moment: Moment, offline: Sequence[int]) -> bool:
    """No condition."""
    del moment, offline
    return True


def off_itself(moment: Moment, offline: Sequence[int]) -> Coupling:
    """Off-Couple broken: it is OFF from the round after ``now`` on."""
    return Coupling(tuple(offline), moment.now + 1)


def _verifier(part: Part, broken: str) -> Verifier:
    def verify(data: Data) -> str | None:
        problem, now = read_common(data), data["now"]
        if not 0 <= now <= 50:
            return None
        moment = Moment(problem, now)
        offline = moment.offline[0]
        if len(moment.offline) > 1 or not puts_off(moment, offline) or part(moment, offline):
            return None
        coupled = moment.coupled(offline)
        return (
            f"convention {problem.convention}, M = {problem.memory}, (arrival, s, o) = "
            f"{data['requests']}: Algorithm 2 starts at {moment.online}; from its state at t = "
            f"{now} the only optimum starts at {list(offline)}, and OC at {list(coupled.starts)} "
            f"with t̂ = {coupled.copies_from}: {broken}"
        )

    return verify


@lru_cache(maxsize=2**14)
def _cases_of(
    convention: Convention, memory: int, outputs: tuple[int, ...], arrivals: tuple[int, ...]
) -> tuple[Case, ...]:
    """Return moments at which Algorithm 2 starts something, and the one optimum no more."""
    problem = problem_of(memory, [1] * len(outputs), outputs, convention, arrivals)
    return tuple(
        (moment, moment.offline[0])
        for moment in rounds_to_see([problem])
        # Where it starts nothing, nothing fits, and OFF decides alike.
        if moment.started(moment.online)
        and len(moment.offline) == 1
        and puts_off(moment, moment.offline[0])
    )


def _examined(
    context: Context,
    part: Part,
    verify: Verifier,
    alike: Part,
    couple: Callable[[Moment, Sequence[int]], Coupling],
) -> Outcome:
    drawn = filling_problems(context, context.choose(780, 2400, 60_000))
    cases = [case for requests in drawn for case in _cases_of(*requests)]
    made = (
        "rounds in which Algorithm 2 starts something, with a single optimum from there that "
        "starts nothing else then, of random runs on 4 requests that are not optimal, s = 1; A "
        "and B with M = 6, C with M = 8, in turn"
    )
    domain = Domain(made, cases)
    printed = examine("the statement", made, cases, lambda case: part(*case), keep=len(cases))
    corrected = domain.examine(
        "the corrected statement", lambda case: part(*case), lambda case: alike(*case)
    )
    by_text = domain.examine(
        "OC and t̂ by the tools of `bfio.kvcache` = Algorithm 3 written out again",
        lambda case: couple(*case) == case[0].coupled(case[1]),
    )
    seen = Counter(moment.problem.convention for moment, _ in cases)
    under = Counter(moment.problem.convention for moment, _ in printed.failures)
    everywhere = examine(
        "no convention saves it: some round breaks it",
        "A, B and C, each with the rounds above",
        CONVENTIONS,
        lambda convention: under[convention] > 0,
    )
    # The algorithms look ahead by Equation (1), so its own convention is the one shown.
    shown = [
        as_data(moment.problem, now=moment.now)
        for moment, _ in printed.failures
        if moment.problem.convention is Convention.CLOSED
    ]
    refuted = replace(
        printed, counterexamples=tuple(shown), verify=verify, found=f"search: {made}"
    )
    rates = {f"failures_under_{c}": f"{under[c]} of {seen[c]} rounds" for c in CONVENTIONS}
    return Findings(refuted, corrected, by_text, everywhere, numbers=rates)


_READING = (
    "Algorithm 3 as printed, t̂ the round in which OFF completes the last request of S_ON ∪ U. "
    "Looked at where OFF is the only optimum, so that nothing depends on which one is taken, and "
    "starts at t only what Algorithm 2 starts, as the text before the lemma has it (V ⊂ S_ON ∪ "
    "U). Under A, B and C alike: it fails under each, as the figures count; the counterexample "
    "shown is under A, the convention of Equation (1)."
)


def _claim(
    claim_id: str,
    broken: str,
    condition: Part,
    scope: Scope = Scope.RESULT,
    defect: Defect = Defect.RESULT,
) -> Callable[[Part], Part]:
    """Claim a part of the lemma, or what is used for it; it holds under the condition."""

    def add(part: Part) -> Part:
        verify = _verifier(part, broken)

        def check(
            context: Context,
            *,
            alike: Part = condition,
            couple: Callable[[Moment, Sequence[int]], Coupling] = Moment.coupled_by_text,
        ) -> Outcome:
            return _examined(context, part, verify, alike, couple)

        return CLAIMS.stated(
            scope,
            claim_id,
            Mutation("the condition of the correction dropped", alike=always),
            Mutation("OC that follows OFF at once", couple=off_itself),
            check=check,
            hypotheses=(*FROM_STATE, "OFF starts at t only some of what Algorithm 2 starts"),
            summary="OC lags behind OFF where Algorithm 2 has started a request that OFF "
            "puts off.",
            reading=f"{_READING} {texts_of(part).get('reading', '')}".rstrip(),
            defect=defect,
            verify=verify,
        )(part)

    return add


@_claim("kv.lemma5.4-i", "OC exceeds M", decides_alike)
def within_memory(moment: Moment, offline: Sequence[int]) -> bool:
    """OC keeps the memory.

    Source: KV-cache paper, Lemma 5.4 (section 5.1, proof in appendix B.2), (i)
    Statement: Off-Couple never exceeds the memory limit.
    Formula: Σ tokens of OC ≤ M at all times
    Reading: What OC starts by Equation (2) fits; what it copies from t̂ on need not.
    Correction: It holds if OFF starts at t what Algorithm 2 starts; then OC is OFF, and CP_{t+1} =
        0 anyway.
    """
    return not violations(moment.problem, moment.coupled(offline).starts)


@_claim("kv.lemma5.4-ii", "OFF has completed more by t̂", decides_alike)
def in_time(moment: Moment, offline: Sequence[int]) -> bool:
    """OC completes in time.

    Source: KV-cache paper, Lemma 5.4 (section 5.1, proof in appendix B.2), (ii)
    Statement: At t̂ Off-Couple has completed all that the hindsight optimum has completed.
    Formula: c_i(OFF) ≤ t̂  ⇒  c_i(OC) ≤ t̂
    Correction: It holds if OFF starts at t what Algorithm 2 starts; then OC is OFF, and CP_{t+1} =
        0 anyway.
    """
    coupled, outputs = moment.coupled(offline), moment.problem.output.tolist()
    ends = zip(offline, coupled.starts, outputs, strict=True)
    return all(
        oc + o <= coupled.copies_from for off, oc, o in ends if off + o <= coupled.copies_from
    )


@_claim("kv.lemma5.4-iii", "OC holds more once what completes at t̂ has left", decides_alike)
def no_more_memory(moment: Moment, offline: Sequence[int]) -> bool:
    """OC holds no more memory.

    Source: KV-cache paper, Lemma 5.4 (section 5.1, proof in appendix B.2), (iii)
    Statement: At t̂ Off-Couple uses no more memory than the optimum.
    Formula: memory(OC, t̂) ≤ memory(OFF, t̂)
    Reading: Memory at t̂ is that of the slot after the completions of t̂: by the proof OFF then
        holds only what it has begun after the last of them. (In slot t̂ itself, where under A and
        C what completes still holds its memory, no failure is known while V ⊂ S_ON ∪ U. Without
        that there is one under C: M = 4, (arrival, s, o) = (0, 1, 2), (0, 1, 3), (2, 1, 3), (3, 1,
        1), (4, 1, 1), t = 0.)
    Correction: It holds if OFF starts at t what Algorithm 2 starts; then OC is OFF, and CP_{t+1} =
        0 anyway.
    """
    coupled = moment.coupled(offline)
    # Under Equation (1) a request that completes at t̂ still holds its memory in that slot.
    after = coupled.copies_from + (moment.problem.convention is Convention.CLOSED)
    mine, theirs = (present(moment.data, s, after) for s in (coupled.starts, offline))
    return sum(mine) <= sum(theirs)


@_claim(
    "kv.coupling-inequality",
    "CP is greater than L^OC − L^OFF",
    within_memory,
    Scope.STEP,
    Defect.SENTENCE,
)
def bounded_by_coupling(moment: Moment, offline: Sequence[int]) -> bool:
    """Off-Couple bounds the compensated value.

    Source: KV-cache paper, proof of Theorem 5.3 (section 5.1), inequality before Algorithm 3
    Statement: OFF from the online state costs no more than any other algorithm, so CP is at most
        the difference of OC and OFF.
    Formula: CP_{t+1} ≤ L^OC_{t+1}(S_ON, R_ON) − L^OFF_{t+1}(S̃_OFF, R̃_OFF)
    Correction: It holds where OC keeps the memory (kv.lemma5.4-i): what exceeds M may cost less
        than any schedule.
    """
    return moment.compensated <= sum(moment.coupled(offline).starts) - sum(offline)


def same_state(moment: Moment, offline: Sequence[int]) -> bool:
    """Whether OC has completed by t̂ what OFF has, and what runs then runs in both alike."""
    coupled, outputs = moment.coupled(offline), moment.problem.output.tolist()
    ends = zip(offline, coupled.starts, outputs, strict=True)
    return all(off == oc or max(off, oc) + o <= coupled.copies_from for off, oc, o in ends)


@_claim(
    "kv.eq7",
    "after t̂ the numbers of pending requests differ",
    same_state,
    Scope.STEP,
    Defect.SENTENCE,
)
def over_at_t_hat(moment: Moment, offline: Sequence[int]) -> bool:
    """From t̂ on OC and OFF cost the same.

    Source: KV-cache paper, proof of Theorem 5.3 (section 5.1), Equation (7) and the display that
        it leads to
    Statement: OC decides as OFF from t̂ on, so the difference of their latencies from t + 1 on is
        that of the rounds t + 1 to t̂.
    Formula: L^OC_{t+1} − L^OFF_{t+1} = Σ_{t′=t+1}^{t̂} (|S_OC ∪ R_OC| − |S̃_OFF ∪ R̃_OFF|)
    Reading: (7) subtracts L^OC from OFF's state at t̂; with that it is an identity, but its first
        difference is the latency of OC in rounds t + 1 to t̂ only if OC is in that state.
    Correction: It holds where OC reaches OFF's state at t̂, which the text before Lemma 5.4 states
        and the lemma does not contain.
    """
    coupled = moment.coupled(offline)
    rounds = range(moment.now + 1, coupled.copies_from + 1)
    difference = sum(
        moment.pending(coupled.starts, r) - moment.pending(offline, r) for r in rounds
    )
    return difference == sum(coupled.starts) - sum(offline)
