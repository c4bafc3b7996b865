"""Off-Couple: Lemma 5.4, the inequality before Equation (7), and what (7) is used for."""

from collections.abc import Callable, Sequence
from functools import partial

from formulations.hindsight_latency import Convention, violations
from proofs_checks.claim import Claim, Context, Defect, Kind, Mutation, Verifier
from proofs_checks.evidence import Data, Evidence
from proofs_checks.papers.kv.model import Jobs, as_data
from proofs_checks.papers.kv.moments import FROM_STATE, PROOF, Moment, moments, read_common
from proofs_checks.search import corrected_evidence, examine

#: A condition on a moment and the optimum from there.
Part = Callable[[Moment, Sequence[int]], bool]


def tokens_at(data: Jobs, starts: Sequence[int], slot: int) -> int:
    """Return the tokens in the cache at a slot."""
    return sum(
        data.first[job] + slot - start
        for job, start in enumerate(starts)
        if start <= slot < start + data.length[job]
    )


def within_memory(moment: Moment, offline: Sequence[int]) -> bool:
    """(i): OC never exceeds the memory."""
    return not violations(moment.problem, moment.coupled(offline).starts)


def in_time(moment: Moment, offline: Sequence[int]) -> bool:
    """(ii): OC has completed by t̂ what OFF has."""
    coupled, outputs = moment.coupled(offline), moment.problem.output.tolist()
    ends = zip(offline, coupled.starts, outputs, strict=True)
    return all(
        oc + o <= coupled.copies_from for off, oc, o in ends if off + o <= coupled.copies_from
    )


def no_more_memory(moment: Moment, offline: Sequence[int]) -> bool:
    """(iii): OC holds no more than OFF once what completes at t̂ has left."""
    coupled = moment.coupled(offline)
    # Under Equation (1) a request that completes at t̂ still holds its memory in that slot.
    after = coupled.copies_from + 1
    mine = tokens_at(moment.data, coupled.starts, after)
    return mine <= tokens_at(moment.data, offline, after)


def bounded_by_coupling(moment: Moment, offline: Sequence[int]) -> bool:
    """``CP ≤ L^OC − L^OFF``, the inequality before Equation (7)."""
    return moment.compensated <= sum(moment.coupled(offline).starts) - sum(offline)


def over_at_t_hat(moment: Moment, offline: Sequence[int]) -> bool:
    """Whether ``L^OC − L^OFF`` is the difference of the pending requests of rounds t+1..t̂."""
    coupled = moment.coupled(offline)
    rounds = range(moment.now + 1, coupled.copies_from + 1)
    difference = sum(
        moment.pending(coupled.starts, r) - moment.pending(offline, r) for r in rounds
    )
    return difference == sum(coupled.starts) - sum(offline)


def decides_alike(moment: Moment, offline: Sequence[int]) -> bool:
    """Whether OFF starts at t what Algorithm 2 starts."""
    return moment.started(offline) == moment.started(moment.online)


def same_state(moment: Moment, offline: Sequence[int]) -> bool:
    """Whether OC has completed by t̂ what OFF has, and what runs then runs in both alike."""
    coupled, outputs = moment.coupled(offline), moment.problem.output.tolist()
    ends = zip(offline, coupled.starts, outputs, strict=True)
    return all(off == oc or max(off, oc) + o <= coupled.copies_from for off, oc, o in ends)


def always(moment: Moment, offline: Sequence[int]) -> bool:
    """No condition."""
    del moment, offline
    return True


def _verifier(part: Part, broken: str) -> Verifier:
    def verify(data: Data) -> str | None:
        problem, now = read_common(data), data["now"]
        if problem.convention is not Convention.CLOSED or not 0 <= now <= 50:
            return None
        moment = Moment(problem, now)
        offline = moment.offline[0]
        if len(moment.offline) > 1 or part(moment, offline):
            return None
        coupled = moment.coupled(offline)
        return (
            f"convention A, M = {problem.memory}, (arrival, s, o) = {data['requests']}: Algorithm "
            f"2 starts at {moment.online}; from its state at t = {now} the only optimum starts at "
            f"{list(offline)}, and OC at {list(coupled.starts)} with t̂ = {coupled.copies_from}: "
            f"{broken}"
        )

    return verify


def _couple_check(context: Context, *, part: Part, verify: Verifier, alike: Part) -> Evidence:
    count = context.choose(300, 1500, 30_000)
    cases = [
        (moment, moment.offline[0])
        for moment in moments(context, count, Convention.CLOSED)
        if len(moment.offline) == 1
    ]
    made = (
        "rounds, with a single optimum from there, of random runs of Algorithm 2 on 4 requests "
        "that are not optimal"
    )
    return corrected_evidence(
        examine("the statement", made, cases, lambda case: part(*case)),
        examine(
            "the corrected statement",
            made,
            cases,
            lambda case: part(*case),
            lambda case: alike(*case),
        ),
        verify,
        lambda case: as_data(case[0].problem, now=case[0].now),
        "OC lags behind OFF where Algorithm 2 has started a request that OFF puts off.",
    )


_READING = (
    "Algorithm 3 as `bfio.kvcache.off_couple` has it, memory by Equation (1), t̂ the round in "
    "which OFF completes the last request of S_ON ∪ U. Looked at where OFF is the only optimum, "
    "so that nothing depends on which one is taken."
)
_LEMMA = "KV-cache paper, Lemma 5.4 (section 5.1, proof in appendix B.2)"
_ALIKE = (
    "It holds if OFF starts at t what Algorithm 2 starts; then OC is OFF, and CP_{t+1} = 0 anyway."
)


def _claim(name: str, texts: tuple[str, ...], part: Part, alike: Part, reading: str = "") -> Claim:
    source, title, statement, formula, broken, correction = texts
    verify = _verifier(part, broken)
    check = partial(_couple_check, part=part, verify=verify)
    return Claim(
        id=f"kv.{name}",
        source=source,
        title=title,
        statement=statement,
        formula=formula,
        hypotheses=FROM_STATE,
        kind=Kind.COUNTEREXAMPLE,
        check=partial(check, alike=alike),
        mutations=(
            Mutation("the condition of the correction dropped", partial(check, alike=always)),
        ),
        correction=correction,
        defect=Defect.RESULT,
        reading=_READING + reading,
        verify=verify,
    )


CLAIMS = (
    _claim(
        "lemma5.4-i",
        (
            f"{_LEMMA}, (i)",
            "OC keeps the memory",
            "Off-Couple never exceeds the memory limit.",
            "Σ tokens of OC ≤ M at all times",
            "OC exceeds M",
            _ALIKE,
        ),
        within_memory,
        decides_alike,
        " What OC starts by Equation (2) fits; what it copies from t̂ on need not.",
    ),
    _claim(
        "lemma5.4-ii",
        (
            f"{_LEMMA}, (ii)",
            "OC completes in time",
            "At t̂ Off-Couple has completed all that the hindsight optimum has completed.",
            "c_i(OFF) ≤ t̂  ⇒  c_i(OC) ≤ t̂",
            "OFF has completed more by t̂",
            _ALIKE,
        ),
        in_time,
        decides_alike,
    ),
    _claim(
        "lemma5.4-iii",
        (
            f"{_LEMMA}, (iii)",
            "OC holds no more memory",
            "At t̂ Off-Couple uses no more memory than the optimum.",
            "memory(OC, t̂) ≤ memory(OFF, t̂)",
            "OC holds more once what completes at t̂ has left",
            _ALIKE,
        ),
        no_more_memory,
        decides_alike,
        " Memory at t̂ is that of the slot after the completions of t̂: by the proof OFF then "
        "holds only what it has begun after the last of them. (In slot t̂ itself, where what "
        "completes still holds its memory, no failure is known while OFF is the only optimum.)",
    ),
    _claim(
        "coupling-inequality",
        (
            f"{PROOF}, inequality before Algorithm 3",
            "Off-Couple bounds the compensated value",
            "OFF from the online state costs no more than any other algorithm, so CP is at most "
            "the difference of OC and OFF.",
            "CP_{t+1} ≤ L^OC_{t+1}(S_ON, R_ON) − L^OFF_{t+1}(S̃_OFF, R̃_OFF)",
            "CP is greater than L^OC − L^OFF",
            "It holds where OC keeps the memory (kv.lemma5.4-i): what exceeds M may cost less "
            "than any schedule.",
        ),
        bounded_by_coupling,
        within_memory,
    ),
    _claim(
        "eq7",
        (
            f"{PROOF}, Equation (7) and the display that it leads to",
            "From t̂ on OC and OFF cost the same",
            "OC decides as OFF from t̂ on, so the difference of their latencies from t + 1 on is "
            "that of the rounds t + 1 to t̂.",
            "L^OC_{t+1} − L^OFF_{t+1} = Σ_{t′=t+1}^{t̂} (|S_OC ∪ R_OC| − |S̃_OFF ∪ R̃_OFF|)",
            "after t̂ the numbers of pending requests differ",
            "It holds where OC reaches OFF's state at t̂, which the text before Lemma 5.4 states "
            "and the lemma does not contain.",
        ),
        over_at_t_hat,
        same_state,
        " (7) subtracts L^OC from OFF's state at t̂; with that it is an identity, but its first "
        "difference is the latency of OC in rounds t + 1 to t̂ only if OC is in that state.",
    ),
)
