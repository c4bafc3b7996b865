"""Theorem 4: Nested WAIT with fewer segments than types, and what (14) as printed allows."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import pairwise, product

from formulations.fluid import FluidWorker
from formulations.thresholds import NestedProblem
from formulations.thresholds.segments import printed_segment_memory
from proofs_checks.claim import Claim, Context, Defect, Kind, Mutation
from proofs_checks.evidence import Data, Findings, Outcome
from proofs_checks.papers.fluid.cases import stage_sum
from proofs_checks.papers.fluid.full_batch import full_batch
from proofs_checks.papers.fluid.nested_scaling import (
    CONCLUSION,
    READING,
    Experiment,
    scaling_check,
)
from proofs_checks.search import refute


@dataclass(frozen=True)
class Merged:
    """Types with ``l'_j = j`` at rate 1 each, merged into segments of equal width.

    Parameters
    ----------
    prompt, width : int
        ``l`` and ``ΔL``.
    thresholds : tuple of int
        One per segment, at least two.
    fixed, inverse : int
        ``d0`` and ``1/d1``.
    """

    prompt: int
    width: int
    thresholds: tuple[int, ...]
    fixed: int
    inverse: int

    @property
    def number(self) -> int:
        """``m = L·ΔL``."""
        return self.width * len(self.thresholds)

    @property
    def work_rate(self) -> int:
        """``A``: work that arrives per unit time."""
        return sum(stage_sum(self.prompt, j) for j in range(1, self.number + 1))

    def time(self, *, printed: bool) -> Fraction:
        """``ΔT(n)`` with the M^π after (14), or that of a full batch."""
        ends = tuple(self.width * (i + 1) for i in range(len(self.thresholds)))
        memory = (
            printed_segment_memory(self.prompt, self.width, self.thresholds)
            if printed
            else Fraction(full_batch((self.prompt, ends, self.thresholds)))
        )
        return self.fixed + memory / self.inverse

    def applies(self, *, printed: bool = True) -> bool:
        """Whether (14) holds, strictly too, and ``n_1 > n_2 > ...``."""
        values = (self.prompt, self.width, self.fixed, self.inverse, *self.thresholds)
        if len(self.thresholds) < 2 or min(values) < 1:
            return False
        segments = len(self.thresholds)
        # p_i = (L − i)/(L − i + 1), as all rates are alike.
        drifts = all(
            before > after and after * (segments - i) > before * (segments - i - 1)
            for i, (before, after) in enumerate(pairwise(self.thresholds))
        )
        return drifts and self.time(printed=printed) * self.number < self.thresholds[0]

    @property
    def keeps_up(self) -> bool:
        """Whether the load ``d1·A`` is 1 at most."""
        return self.work_rate <= self.inverse


def verify(data: Data) -> str | None:
    """Confirm that thresholds satisfy (14), strictly, and the load is above 1."""
    merged = Merged(
        data["prompt"], data["width"], tuple(data["thresholds"]), data["fixed"], data["inverse"]
    )
    if not merged.applies() or merged.keeps_up:
        return None
    return (
        f"l = {merged.prompt}, l'_j = j ≤ {merged.number} at rate 1 each, L = "
        f"{len(merged.thresholds)}, d0 = {merged.fixed}, d1 = 1/{merged.inverse}: n = "
        f"{merged.thresholds} satisfies (14) with ΔT = {merged.time(printed=True)} < n_1/Σλ'_j = "
        f"{Fraction(merged.thresholds[0], merged.number)}, but the load d1·A = "
        f"{Fraction(merged.work_rate, merged.inverse)} exceeds 1: latency grows linearly "
        "(fluid.proposition1)"
    )


def _choices(context: Context) -> Iterator[Merged]:
    most = context.choose(60, 100, 200)
    for prompt, width, fixed in product((1, 2), (1, 2), (1, 2)):
        work = Merged(prompt, width, (1, 1), 1, 1).work_rate
        for first, inverse in product(range(3, most), (work - 1, work, 2 * work)):
            yield Merged(prompt, width, (first, first // 2 + 1), fixed, inverse)


def _merged(*, fixed: Fraction = Fraction(1, 2)) -> Experiment:
    rates = tuple(Fraction(k, 4) for k in (4, 3, 2, 1))
    worker = FluidWorker(fixed, Fraction(1, 300), 10**6)
    problem = NestedProblem.single(1, (1, 2, 3, 4), rates, worker, (2, 4))
    return Experiment(problem, problem, (4, 2))


def _check(context: Context, *, fixed: Fraction = Fraction(1, 2), printed: bool = True) -> Outcome:
    printed_bears = refute(
        "thresholds that satisfy (14) mean a load of 1 at most",
        "two segments of one or two types, equal rates, n_1 up to 60 and more, d1 around 1/A",
        _choices(context),
        verify,
        lambda m: {**vars(m), "thresholds": list(m.thresholds)},
        holds=lambda m: m.keeps_up,
        applies=lambda m: m.applies(printed=printed),
    )
    runs = scaling_check(context, experiment=partial(_merged, fixed=fixed))
    return Findings(
        printed_bears,
        *runs.seen,
        estimates=runs.estimates,
        numbers=runs.numbers,
        summary="The printed M^π is too small (fluid.eq14), so that (14) admits overloads. "
        f"{runs.summary}",
    )


CLAIMS = (
    Claim(
        id="fluid.theorem4",
        source="fluid paper, Theorem 4 (section 7.2) and remark (iii) (section 5.2)",
        title="Nested WAIT with fewer segments: throughput and latency",
        statement="For any fixed number of segments L and thresholds that satisfy (14) the "
        "throughput gap is O(1/(ζT)), latency and TTFT are O(1).",
        formula=f"(14)  ⇒  {CONCLUSION}",
        hypotheses=(
            "m output lengths in L ≤ m segments",
            "(14), with the M^π after it",
            "memory enough for all batches",
        ),
        kind=Kind.ASYMPTOTIC,
        check=_check,
        mutations=(
            Mutation("the memory of a full batch as printed", printed=False),
            Mutation("an engine four times slower, which breaks (14)", fixed=Fraction(2)),
        ),
        correction="With M^π the memory of a full batch (fluid.eq14) and < in (14), as in (10) "
        "(fluid.theorem4-equality).",
        defect=Defect.FORMULA,
        reading=READING.format("theorem4-memory") + " The refutation is of the sum for M^π after "
        "(14), which section 7.2 repeats for its figures. By the words before it, 'n_i at each "
        "stage', M^π is that of a full batch, and the statement with < in (14) is the corrected "
        "one.",
        verify=verify,
    ),
)
