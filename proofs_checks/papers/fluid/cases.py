"""Classes and one engine in integers, and their equilibrium solved from the balance alone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations, product

import numpy as np

from formulations.fluid import FluidProblem, FluidWorker, RequestClass
from proofs_checks.evidence import Data

#: Rate, prompt and output of a class.
Row = tuple[int, int, int]


@dataclass(frozen=True)
class Case:
    """Classes on an engine with ``d0 = fixed`` and ``d1 = 1/inverse``.

    Parameters
    ----------
    rows : tuple of (int, int, int)
        Rate [1/s], prompt and output [tokens] of each class.
    fixed : int
        ``d0`` [s].
    inverse : int
        ``1/d1`` [tokens/s].
    """

    rows: tuple[Row, ...]
    fixed: int
    inverse: int

    @staticmethod
    def of(data: Data) -> "Case | None":
        """Read plain data; None if they are no stable case."""
        rows = tuple((rate, prompt, output) for rate, prompt, output in data["rows"])
        case = Case(rows, data["fixed"], data["inverse"])
        if not rows or case.fixed < 1 or min(min(row) for row in rows) < 1:
            return None
        return case if case.inverse > case.work_rate else None

    @property
    def data(self) -> Data:
        """The case as plain data."""
        rows = [list(row) for row in self.rows]
        return {"rows": rows, "fixed": self.fixed, "inverse": self.inverse}

    @cached_property
    def classes(self) -> tuple[RequestClass, ...]:
        """The classes."""
        return tuple(
            RequestClass(Fraction(rate), prompt, output) for rate, prompt, output in self.rows
        )

    @property
    def d1(self) -> Fraction:
        """``d1`` [s/token]."""
        return Fraction(1, self.inverse)

    def worker(self, memory: int = 1) -> FluidWorker:
        """Return the engine."""
        return FluidWorker(Fraction(self.fixed), self.d1, memory)

    def problem(self, memory: int = 1) -> FluidProblem:
        """Return classes and engine."""
        return FluidProblem(self.classes, (self.worker(memory),))

    @property
    def work_rate(self) -> int:
        """``A = Σ_j λ_j Σ_k (l_j + k)``, stage by stage [token-iterations/s]."""
        return sum(rate * stage_sum(prompt, output) for rate, prompt, output in self.rows)

    @cached_property
    def counts(self) -> list[Fraction]:
        """``n_j*``: the solution of arrivals = completions, by elimination."""
        return self.balanced([output + 1 for _, _, output in self.rows])

    def balanced(self, stages: Sequence[int]) -> list[Fraction]:
        """Solve ``n_j = stages_j·λ_j·(d0 + d1·Σ_i n_i (l_i + l'_i/2))`` for all j."""
        means = [prompt + Fraction(output, 2) for _, prompt, output in self.rows]
        rates = [row[0] * number for row, number in zip(self.rows, stages, strict=True)]
        matrix = [
            [Fraction(int(i == j)) - rate * self.d1 * mean for i, mean in enumerate(means)]
            for j, rate in enumerate(rates)
        ]
        return solved(matrix, [Fraction(rate * self.fixed) for rate in rates])

    def memory(self, counts: Sequence[Fraction]) -> Fraction:
        """``Σ_j n_j (l_j + l'_j/2)``, equation (5) [tokens]."""
        pairs = zip(counts, self.rows, strict=True)
        return sum((n * (p + Fraction(o, 2)) for n, (_, p, o) in pairs), Fraction(0))

    @property
    def time(self) -> Fraction:
        """``ΔT* = d0 + d1·M*`` [s]."""
        return self.fixed + self.d1 * self.memory(self.counts)


def stage_sum(prompt: int, last: int, first: int = 0) -> int:
    """Return ``Σ (l + k)`` over the stages ``k = first..last``, one by one."""
    return sum(prompt + k for k in range(first, last + 1))


def solved(matrix: Sequence[Sequence[Fraction]], right: Sequence[Fraction]) -> list[Fraction]:
    """Solve a regular system by elimination in fractions."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for k in range(len(rows)):
        pivot = next(i for i in range(k, len(rows)) if rows[i][k])
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [value / rows[k][k] for value in rows[k]]
        for i, row in enumerate(rows):
            if i != k and row[k]:
                rows[i] = [a - row[k] * b for a, b in zip(row, rows[k], strict=True)]
    return [row[-1] for row in rows]


def all_cases(largest_rate: int, longest: int, most: int) -> Iterator[Case]:
    """Yield every case of up to ``most`` classes with prompts 1..2, at three loads."""
    kinds = list(product(range(1, largest_rate + 1), (1, 2), range(1, longest + 1)))
    for number in range(1, most + 1):
        for rows in combinations(kinds, number):
            work = Case(rows, 1, 1).work_rate
            for fixed, inverse in ((1, work + 1), (2, 2 * work), (3, 10 * work)):
                yield Case(rows, fixed, inverse)


def random_cases(rng: np.random.Generator, number: int, most: int = 4) -> Iterator[Case]:
    """Yield random cases of 1 to ``most`` classes of different lengths, loads below 1."""
    for _ in range(number):
        lengths = {
            tuple(rng.integers(1, 12, 2).tolist()) for _ in range(rng.integers(1, most + 1))
        }
        rows = tuple((int(rng.integers(1, 10)), *pair) for pair in sorted(lengths))
        work = Case(rows, 1, 1).work_rate
        yield Case(rows, int(rng.integers(1, 10)), work + int(rng.integers(1, 4 * work)))
