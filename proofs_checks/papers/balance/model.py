"""Section 3 and the beginning of section 5: profiles, loads, imbalance."""

from collections.abc import Callable, Iterator, Sequence

from bfio.decode.drift import Drift
from bfio.decode.run import Run
from proofs_checks.claim import Claim, Context, Defect, Kind, Mutation
from proofs_checks.evidence import Data, Findings, Outcome
from proofs_checks.runs import random_requests, small_run, step_loads
from proofs_checks.search import examine, refute
from proofs_checks.step_enumeration import gap, vectors

#: Load of a request with prompt s in its j-th step, j = 1, 2, ...
Weight = Callable[[int, int], int]


def printed_weight(prompt: int, age: int) -> int:
    """``w(j) = s + j − 1``."""
    return prompt + age - 1


# Equation (1): loads of a run from the definition.


def loads_by_definition(run: Run, prompts: Sequence[int], weight: Weight) -> list[list[int]]:
    """Recompute ``L_g(k) = Σ w_i(k − x_i + 1)`` from when and where each request ran."""
    loads = [[0] * run.cluster.workers for _ in range(run.steps)]
    for i, prompt in enumerate(prompts):
        for k in range(int(run.start_step[i]), int(run.finish_step[i]) + 1):
            loads[k][int(run.worker[i])] += weight(prompt, k - int(run.start_step[i]) + 1)
    return loads


def _profile_check(context: Context, *, weight: Weight = printed_weight) -> Outcome:
    runs = context.choose(5, 100, 2000)
    cases = [([3], [4]), *(random_requests(context.rng, 12, 9, 5) for _ in range(runs))]

    def holds(case: tuple[list[int], list[int]]) -> bool:
        prompts, outputs = case
        run = small_run(prompts, outputs, "fcfs", 2, 2)
        return bool(step_loads(run).tolist() == loads_by_definition(run, prompts, weight))

    seen = examine(
        "loads of every step of a run",
        "the printed example (prompt 3, four steps) and random runs of 12 requests on 2 workers",
        cases,
        holds,
    )
    constant = small_run([5], [3], "fcfs", 1, 1, drift=Drift((0,)))
    return Findings(
        seen,
        summary="The printed example, prompt 3 and four steps, gives the loads 3, 4, 5, 6; "
        f"constant work 5 for three steps gives {step_loads(constant)[:, 0].tolist()}.",
    )


# How many steps a request is active.


def verify_steps(data: Data) -> str | None:
    """Compare the sentence (o − 1 steps, the k-th needs s + k) with the printed profile."""
    prompt, output = data["prompt"], data["output"]
    # A request of one step would be a counterexample with nothing to see.
    if prompt < 1 or output < 2:
        return None
    profile = [prompt + j for j in range(output)]
    sentence = [prompt + k for k in range(1, output)]
    if profile == sentence:
        return None
    return f"the sentence gives {sentence}, the profile W = {profile}"


def _steps_check(context: Context, *, extra: int = 0) -> Outcome:
    largest = context.choose(4, 12, 40)
    requests = [(s, o) for s in range(1, largest) for o in range(2, largest)]
    printed = refute(
        "o − 1 steps with loads s + k agree with the profile",
        f"all prompts and outputs below {largest}",
        requests,
        verify_steps,
        lambda r: {"prompt": r[0], "output": r[1]},
    )

    def runs_as_corrected(request: tuple[int, int]) -> bool:
        prompt, output = request
        loads = step_loads(small_run([prompt], [output], "fcfs", 1, 1))[:, 0].tolist()
        return bool(loads == [prompt + j for j in range(output + extra)])

    corrected = examine(
        "o steps with loads s + j − 1", "the same requests, run by the engine", requests,
        runs_as_corrected,
    )  # fmt: skip
    return printed, corrected


# Equation (2) and its bound by the gap.


def _small_loads(context: Context) -> Iterator[tuple[int, ...]]:
    largest = context.choose(3, 6, 10)
    for workers in (1, 2, 3, 4):
        yield from vectors(workers, largest)


def _imbalance_check(context: Context, *, peak: Callable[..., int] = max) -> Outcome:
    return examine(
        "both forms of the imbalance agree",
        "all load vectors of 1 to 4 workers with small entries",
        _small_loads(context),
        lambda x: sum(max(x) - load for load in x) == len(x) * peak(x) - sum(x) >= 0,
    )


def _gap_check(context: Context, *, fewer: int = 1) -> Outcome:
    return examine(
        "D ≤ Imbalance ≤ (G − 1)·D",
        "all load vectors of 1 to 4 workers with small entries",
        _small_loads(context),
        lambda x: gap(x) <= len(x) * max(x) - sum(x) <= (len(x) - fewer) * gap(x),
    )


_SECTION3 = "BF-IO paper, section 3"

CLAIMS = (
    Claim(
        id="balance.eq1",
        source=f"{_SECTION3}, eq. (1) and the two examples before it",
        title="Profiles and loads",
        statement="A request that starts at step x with profile W adds w(k − x + 1) to its worker "
        "at each of the steps x..x+o−1. Prompt 3 and four steps give W = (3, 4, 5, 6).",
        formula="L_g(k) = Σ_{i active on g} w_i(k − x_i + 1),  w_i(j) = s_i + j − 1",
        hypotheses=("assignments are sticky and not preempted",),
        kind=Kind.FINITE,
        check=_profile_check,
        mutations=(Mutation("loads one step ahead, w(j) = s + j", weight=lambda s, j: s + j),),
        reading="checked on the engine that every other claim with runs uses.",
    ),
    Claim(
        id="balance.decode-steps",
        source="BF-IO paper, section 5, specialised workload model",
        title="Number of decode steps",
        statement="Once a request starts decoding it occupies exactly o − 1 consecutive steps, "
        "and its k-th step (k in 1..o−1) needs workload s + k; so its profile is (s, s+1, ..., "
        "s+o−1).",
        formula="steps k = 1..o−1 with loads s + k  ⇔  W = (s, s+1, ..., s+o−1)",
        hypotheses=("s ≥ 1, o ≥ 1",),
        kind=Kind.COUNTEREXAMPLE,
        check=_steps_check,
        summary="The sentence and the profile two lines below it never agree.",
        mutations=(Mutation("one step more in the correction", extra=1),),
        correction="The profile is right: o steps, the j-th with load s + j − 1, as section 3 "
        "says. The sentence drops the first step.",
        defect=Defect.MISPRINT,
        reading="shown for o ≥ 2; at o = 1 the sentence leaves no step at all.",
        verify=verify_steps,
    ),
    Claim(
        id="balance.eq2",
        source=f"{_SECTION3}, eq. (2)",
        title="Two forms of the imbalance",
        statement="The sum of what each worker lacks to the maximum is G times the maximum less "
        "the sum of the loads.",
        formula="Σ_g (max_h L_h − L_g) = G·max_g L_g − Σ_g L_g",
        hypotheses=(),
        kind=Kind.IDENTITY,
        check=_imbalance_check,
        summary="An identity; the value is never negative.",
        mutations=(Mutation("the minimum in place of the maximum", peak=min),),
    ),
    Claim(
        id="balance.imbalance-gap",
        source="BF-IO paper, appendix C.2, step 1.C",
        title="Imbalance is at most (G − 1) gaps",
        statement="At every step and under every policy the imbalance is at most G − 1 times the "
        "gap between the most and the least loaded worker.",
        formula="Imbalance(k) ≤ (G − 1)·D(k)",
        hypotheses=(),
        kind=Kind.IDENTITY,
        check=_gap_check,
        summary="The lower bound is ours: it shows that the step to D loses at most a factor G − "
        "1.",
        mutations=(Mutation("G − 2 in place of G − 1", fewer=2),),
    ),
)
