"""The proof of constant regret: how large a compensated value is said to be."""

from fractions import Fraction
from itertools import product

from proofs_checks.claim import Claim, Context, Defect, Kind, Mutation
from proofs_checks.evidence import Data, Outcome
from proofs_checks.papers.kv.moments import FROM_STATE, MADE, PROOF, Moment, draws, moments
from proofs_checks.search import examine, refute


# The terms K(t′).
def _pending_check(context: Context, *, per_round: int = 1) -> Outcome:
    def bounded(moment: Moment) -> bool:
        offline = moment.offline[0]
        coupled = moment.coupled(offline)
        served = moment.problem.memory // int(moment.problem.prompt[0])
        return all(
            moment.pending(coupled.starts, r) - moment.pending(offline, r)
            <= per_round * served * (r - moment.now)
            for r in range(moment.now + 1, coupled.copies_from + 1)
        )

    return examine(
        "|S_OC ∪ R_OC| − |S_OFF ∪ R_OFF| ≤ (t′ − t)·⌊M/s⌋ for t′ = t + 1..t̂",
        MADE,
        moments(context, draws(context) // 2),
        bounded,
    )


# The bound for the first rounds.
def _linear_check(context: Context, *, share: Fraction = Fraction(1)) -> Outcome:
    def bounded(moment: Moment) -> bool:
        longest = max(moment.data.length)
        return moment.compensated <= share * len(moment.data.length) * longest

    return examine(
        "CP_{t+1} ≤ n·max d, d the slots that a request occupies",
        MADE,
        moments(context, draws(context) // 2),
        bounded,
    )


# The expectation.
def expected(data: Data) -> Fraction:
    """Return the mean of a CP that is C_1·K̄, but q·T with probability 1/T."""
    if data["horizon"] < 2 or min(data["usual"], data["slope"]) < 1:
        raise ValueError("no horizon, or a bound of 0")
    chance = Fraction(1, data["horizon"])
    usual, unusual = Fraction(data["usual"]), Fraction(data["slope"] * data["horizon"])
    return (1 - chance) * usual + chance * unusual


def verify_expectation(data: Data) -> str | None:
    """Compare the mean with the bound that holds with probability 1 − 1/T."""
    mean = expected(data)
    if data["usual"] >= data["slope"] * data["horizon"] or mean <= data["usual"]:
        return None
    return (
        f"T = {data['horizon']}: CP = {data['usual']} = C_1·K̄ with probability 1 − 1/T, and "
        f"{data['slope']}·T with probability 1/T, has mean {mean}"
    )


def _expectation_check(context: Context, *, share: int = 1) -> Outcome:
    largest = context.choose(8, 20, 40)
    cases = [
        {"usual": c, "slope": q, "horizon": t}
        for c, q, t in product(range(1, largest), range(1, largest), range(2, largest))
    ]
    made = f"CP = C_1·K̄ or, with probability 1/T, q·T; whole C_1·K̄, q, T below {largest}"
    return refute("E CP ≤ C_1·K̄", made, cases, verify_expectation), examine(
        "E CP ≤ C_1·K̄ + q",
        made,
        cases,
        lambda case: expected(case) <= case["usual"] + share * case["slope"],
    )


CLAIMS = (
    Claim(
        id="kv.pending-difference",
        source=f"{PROOF}, displays below Lemmas 5.5 and 5.6",
        title="The terms K(t′)",
        statement="In each round t′ = t + 1, ..., t̂ the numbers of pending requests of OC and "
        "OFF differ by a constant K(t′) at most, since only a finite number of requests can be "
        "processed per round.",
        formula="|S_OC ∪ R_OC| − |S̃_OFF ∪ R̃_OFF| ≤ K(t′)",
        hypotheses=FROM_STATE,
        kind=Kind.FINITE,
        check=_pending_check,
        summary="Both start from the same requests, and OFF completes at most ⌊M/s⌋ a round, each "
        "of which holds s tokens at least.",
        mutations=(Mutation("no difference at all", per_round=0),),
        reading="K(t′) = (t′ − t)·⌊M/s⌋, so K̄ = sup K(t′) is constant only if t̂ − t is bounded.",
    ),
    Claim(
        id="kv.compensated-linear",
        source=f"{PROOF}, text before the last display (t < t_0)",
        title="A compensated value is O(T)",
        statement="For t < t_0 one can take q·T as a bound on CP_{t+1}, for some constant q.",
        formula="CP_{t+1} ≤ q·T",
        hypotheses=FROM_STATE,
        kind=Kind.FINITE,
        check=_linear_check,
        summary="After any decision OFF may let what runs end and put its own schedule off by max "
        "d rounds. With n ≤ B·T this is q·T.",
        mutations=(Mutation("an eighth of it", share=Fraction(1, 8)),),
        reading="q = B·max d, at any t.",
    ),
    Claim(
        id="kv.coupling-constant",
        source=f"{PROOF}, bounds C_1·K̄ and C_2·K̄ on CP_{{t+1}}",
        title="From a bound with high probability to the expectation",
        statement="With probability 1 − O(1/T), t̂ − t ≤ C_1 and so the sum of the differences is "
        "at most C_1·K̄; hence CP_{t+1}, an expectation, is at most C_1·K̄.",
        formula="Pr(Σ_{t′} … ≤ C_1·K̄) ≥ 1 − O(1/T)  ⇒  CP_{t+1} ≤ C_1·K̄",
        hypotheses=("the sum is at most q·T always (kv.compensated-linear)",),
        kind=Kind.COUNTEREXAMPLE,
        check=_expectation_check,
        summary="The event of probability O(1/T) is left out of the expectation, where CP may be "
        "q·T; it adds a constant.",
        mutations=(Mutation("C_1·K̄ in the correction", share=0),),
        correction="CP_{t+1} ≤ C_1·K̄ + q, still a constant. That the probability is 1 − O(1/T) "
        "is where the proof fails (kv.lemma5.5-tail).",
        defect=Defect.FORMULA,
        reading="of the step alone, as a statement about a random number; O(1/T) = 1/T.",
        verify=verify_expectation,
    ),
)
