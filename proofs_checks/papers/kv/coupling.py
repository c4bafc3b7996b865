"""Off-Couple: Lemma 5.4 and the inequality before Equation (7)."""

from collections.abc import Callable, Sequence
from functools import partial

from formulations.hindsight_latency import violations
from proofs_checks.claim import Claim, Context, Kind, Mutation, Verifier
from proofs_checks.evidence import Data, Evidence
from proofs_checks.papers.kv.model import (
    Jobs,
    as_data,
)
from proofs_checks.papers.kv.moments import (
    FROM_STATE,
    MADE,
    PROOF,
    Moment,
    draws,
    moments,
    read_common,
)
from proofs_checks.search import (
    examine,
    smallest_counterexample,
)


# Lemma 5.4 and Equation (7).
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
    """(iii): OC holds no more than OFF at t̂."""
    coupled = moment.coupled(offline)
    mine = tokens_at(moment.data, coupled.starts, coupled.copies_from)
    return mine <= tokens_at(moment.data, offline, coupled.copies_from)


def bounded_by_coupling(moment: Moment, offline: Sequence[int]) -> bool:
    """``CP ≤ L^OC − L^OFF``, the inequality before Equation (7)."""
    return moment.compensated <= sum(moment.coupled(offline).starts) - sum(offline)


#: A condition on a moment and one optimum.
Part = Callable[[Moment, Sequence[int]], bool]


def _verifier(part: Part, broken: str) -> Verifier:
    def verify(data: Data) -> str | None:
        problem, now = read_common(data), data["now"]
        offline = tuple(row[3] for row in data["requests"])
        if not 0 <= now <= 50 or min(offline) < 0:
            return None
        moment = Moment(problem, now)
        if offline not in moment.offline or part(moment, offline):
            return None
        return (
            f"convention {problem.convention}, M = {problem.memory}, (arrival, s, o) = "
            f"{[row[:3] for row in data['requests']]}: Algorithm 2 starts at {moment.online}; "
            f"from t = {now} an optimum starts at {list(offline)}, and OC at "
            f"{list(moment.coupled(offline).starts)} with t̂ = "
            f"{moment.coupled(offline).copies_from}: {broken}"
        )

    return verify


def _couple_check(
    context: Context,
    *,
    part: Part,
    verify: Verifier,
    alike: Callable[[Moment, Sequence[int]], bool],
) -> Evidence:
    cases = [
        (moment, offline)
        for moment in moments(context, draws(context))
        for offline in moment.offline[:3]
    ]

    def holds(case: tuple[Moment, Sequence[int]]) -> bool:
        return part(*case)

    printed = examine("the statement", f"{MADE}, up to 3 optima each", cases, holds)
    corrected = examine(
        "the corrected statement",
        f"{MADE}, up to 3 optima each",
        cases,
        holds,
        lambda case: alike(*case),
    )
    smallest = smallest_counterexample(
        (
            as_data(m.problem, now=m.now)
            | {
                "requests": [
                    [*row, p] for row, p in zip(as_data(m.problem)["requests"], o, strict=True)
                ]
            }
            for m, o in printed.failures
        ),
        verify,
        f"search: {printed.tally.made}",
    )
    return Evidence(
        printed.tally.verdict(),
        corrected.tally.verdict(),
        "OC lags behind OFF wherever Algorithm 2 has started a request that OFF puts off.",
        (printed.tally, corrected.tally),
        counterexample=smallest,
    )


def decides_alike(moment: Moment, offline: Sequence[int]) -> bool:
    """Whether OFF starts at t what Algorithm 2 starts."""
    return moment.started(offline) == moment.started(moment.online)


def always(moment: Moment, offline: Sequence[int]) -> bool:
    """No condition."""
    del moment, offline
    return True


_LEMMA = "KV-cache paper, Lemma 5.4 (section 5.1, proof in appendix B.2)"


_ALIKE = (
    "It holds if OFF starts at t what Algorithm 2 starts; then OC is OFF, and CP_{t+1} = 0 anyway."
)


def _part(name: str, title: str, statement: str, formula: str, part: Part, broken: str) -> Claim:
    verify = _verifier(part, broken)
    check = partial(_couple_check, part=part, verify=verify)
    return Claim(
        id=f"kv.lemma5.4-{name}",
        source=f"{_LEMMA}, ({name})",
        title=title,
        statement=statement,
        formula=formula,
        hypotheses=FROM_STATE,
        kind=Kind.COUNTEREXAMPLE,
        check=partial(check, alike=decides_alike),
        mutations=(
            Mutation("whatever OFF starts, in the correction", partial(check, alike=always)),
        ),
        correction=_ALIKE,
        reading="Algorithm 3 as `bfio.kvcache.off_couple` has it; OFF may be any optimum.",
        verify=verify,
    )


CLAIMS = (
    _part(
        "i",
        "OC keeps the memory",
        "Off-Couple never exceeds the memory limit.",
        "Σ tokens of OC ≤ M at all times",
        within_memory,
        "OC exceeds M",
    ),
    _part(
        "ii",
        "OC completes in time",
        "At t̂ Off-Couple has completed all that the hindsight optimum has completed.",
        "c_i(OFF) ≤ t̂  ⇒  c_i(OC) ≤ t̂",
        in_time,
        "OFF has completed more by t̂",
    ),
    _part(
        "iii",
        "OC holds no more memory",
        "At t̂ Off-Couple uses no more memory than the optimum.",
        "memory(OC, t̂) ≤ memory(OFF, t̂)",
        no_more_memory,
        "OC holds more at t̂",
    ),
    Claim(
        id="kv.eq7",
        source=f"{PROOF}, inequality before Equation (7)",
        title="Off-Couple bounds the compensated value",
        statement="OFF from the online state costs no more than OC, so CP is at most the "
        "difference of OC and OFF.",
        formula="CP_{t+1} ≤ L^OC_{t+1}(S_ON, R_ON) − L^OFF_{t+1}(S̃_OFF, R̃_OFF)",
        hypotheses=FROM_STATE,
        kind=Kind.COUNTEREXAMPLE,
        check=partial(
            _couple_check,
            part=bounded_by_coupling,
            alike=within_memory,
            verify=_verifier(bounded_by_coupling, "CP is greater than L^OC − L^OFF"),
        ),
        mutations=(
            Mutation(
                "OC may exceed M in the correction",
                partial(
                    _couple_check,
                    part=bounded_by_coupling,
                    alike=always,
                    verify=_verifier(bounded_by_coupling, "CP is greater than L^OC − L^OFF"),
                ),
            ),
        ),
        correction="It holds where OC keeps the memory (kv.lemma5.4-i): what exceeds M may cost "
        "less than any schedule.",
        reading="Algorithm 3 as `bfio.kvcache.off_couple` has it; OFF may be any optimum.",
        verify=_verifier(bounded_by_coupling, "CP is greater than L^OC − L^OFF"),
    ),
)
