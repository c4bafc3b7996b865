"""Theorem 1 with memory M* only: thresholds that satisfy (9) strictly, and C = M*."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from proofs_checks.claim import Context
from proofs_checks.evidence import Data, Examination
from proofs_checks.papers.fluid.cases import Case, all_cases, random_cases, stage_sum
from proofs_checks.search import refute


@dataclass(frozen=True)
class Choice:
    """Classes and engine, thresholds per stage, and the memory C."""

    case: Case
    thresholds: tuple[int, ...]
    memory: int

    @staticmethod
    def of(data: Data) -> "Choice | None":
        """Read plain data; None if they are no stable case with a threshold per class."""
        case = Case.of(data)
        thresholds = tuple(data["thresholds"])
        if case is None or len(thresholds) != len(case.rows) or min(thresholds) < 1:
            return None
        return Choice(case, thresholds, data["memory"])

    @property
    def data(self) -> Data:
        """The choice as plain data."""
        own = {"thresholds": list(self.thresholds), "memory": self.memory}
        return {**self.case.data, **own}

    @property
    def full(self) -> int:
        """``M^π``: tokens of a full batch."""
        return sum(
            n * stage_sum(prompt, output)
            for n, (_, prompt, output) in zip(self.thresholds, self.case.rows, strict=True)
        )

    @property
    def time(self) -> Fraction:
        """``ΔT(n)``."""
        return self.case.fixed + self.case.d1 * self.full

    @property
    def applies(self) -> bool:
        """Whether (9) holds strictly and ``C >= M*``, as section 4.3 assumes."""
        rates = [row[0] for row in self.case.rows]
        strict = all(self.time * rate < n for rate, n in zip(rates, self.thresholds, strict=True))
        return strict and self.memory >= self.case.memory(self.case.counts)

    @property
    def keeps_up(self) -> bool:
        """Whether batches of at most C tokens can do more work than arrives.

        If not, what is left is a reflected walk without drift at least, under any policy, and the
        mean latency grows as ``√(ζT)``.
        """
        done = Fraction(self.memory) / (self.case.fixed + self.case.d1 * self.memory)
        return done > self.case.work_rate


def verify(data: Data) -> str | None:
    """Confirm that thresholds satisfy (9) strictly and no policy within C >= M* keeps up."""
    choice = Choice.of(data)
    if choice is None or not choice.applies or choice.keeps_up:
        return None
    case = choice.case
    return (
        f"d0 = {case.fixed}, d1 = 1/{case.inverse}: C = M* = {choice.memory}, n = "
        f"{', '.join(map(str, choice.thresholds))}, ΔT = {choice.time} < n_j/λ_j. A full "
        f"batch has {choice.full} tokens, more than C; and within C no policy does more than A = "
        f"{case.work_rate} tokens of work per unit time, as much as arrives, so that E[Latency] "
        "grows as √(ζT) "
        "(fluid.proposition3)"
    )


def least_strict(case: Case) -> tuple[int, ...]:
    """Return the least thresholds that satisfy (9) strictly, by iteration from below."""
    thresholds = (0,) * len(case.rows)
    while True:
        time = Choice(case, thresholds, 0).time
        raised = tuple(int(time * rate) + 1 for rate, _, _ in case.rows)
        if raised == thresholds:
            return thresholds
        thresholds = raised


def _choices(context: Context, *, ample: bool) -> Iterator[Choice]:
    cases = [*all_cases(1, 2, 2), *random_cases(context.rng, context.choose(10, 100, 1000), 2)]
    for case in cases:
        least, thresholds = case.memory(case.counts), least_strict(case)
        full = Choice(case, thresholds, 0).full
        memory = full if ample else least
        if memory.denominator == 1:
            yield Choice(case, thresholds, int(memory))


def looked_through(context: Context, *, ample: bool = False) -> Examination[Choice]:
    """Look for strict thresholds with which no policy within C keeps latencies bounded.

    Parameters
    ----------
    context : Context
        What the check is given.
    ample : bool
        C = M^π in place of C = M*.
    """
    return refute(
        "strict (9) and C ≥ M* leave room for bounded latencies",
        "one or two classes, least strict thresholds, C = " + ("M^π" if ample else "M*"),
        _choices(context, ample=ample),
        verify,
        lambda choice: choice.data,
        holds=lambda choice: choice.keeps_up,
        applies=lambda choice: choice.applies,
    )
