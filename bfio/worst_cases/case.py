"""A policy on an instance beside a better schedule: the certificate of a ratio."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, TypeAlias

from formulations.arrays import integer
from formulations.formulation import Formulation
from formulations.problem_data import ProblemData

#: Largest number that a field of a space may be.
MAX_FIELD = 10**6
#: Most requests of an instance that is built, not searched for.
MAX_REQUESTS = 100_000


def check_counts(space: object, positive: Sequence[str], others: Sequence[str] = ()) -> None:
    """Check that fields are integers within bounds.

    Parameters
    ----------
    space : object
        A frozen dataclass.
    positive, others : sequence of str
        Fields that are at least 1, and at least 0.

    Raises
    ------
    InputError
        If one is not.
    """
    for name in (*positive, *others):
        least = 1 if name in positive else 0
        found = integer(getattr(space, name), name, minimum=least, maximum=MAX_FIELD)
        object.__setattr__(space, name, found)


class Target(Protocol):
    """A deterministic policy whose ratio is to be made large."""

    @property
    def name(self) -> str:
        """The policy in words."""

    def program(self, problem: Any) -> Formulation[Any, Any, Any]:
        """Return what judges schedules of an instance, and bounds them from below."""

    def schedule(self, problem: Any) -> Any:
        """Return what the policy does, as a solution of the program."""

    def optimum(self, problem: Any, most: int) -> Any:
        """Return a proven optimum; it may be None if no solution costs at most ``most``."""

    def better(self, problem: Any) -> Any:
        """Return a good solution at once, with no proof."""


class Space(Protocol):
    """A bounded set of integer instances."""

    def __str__(self) -> str:
        """Say what is in it."""

    def size(self, target: Any) -> int:
        """Return how many instances `instances` yields, or an upper bound on it."""

    def instances(self, target: Any) -> Iterator[Any]:
        """Yield one of each class of instances that are alike to a policy."""

    def draw(self, rng: Any) -> Any:
        """Return a random instance."""

    def neighbour(self, problem: Any, rng: Any) -> Any:
        """Return an instance that differs a little."""


@dataclass(frozen=True)
class Case:
    """A policy's schedule and another one of the same instance.

    Their costs are recomputed by the checker of the program, so the ratio is a certified lower
    bound on the worst ratio of the policy whoever found it. That the other schedule is optimal is
    a claim of the solver that found it (``proven``).

    Parameters
    ----------
    target : Target
        The policy.
    problem : ProblemData
        The instance.
    schedule, other : object
        Solutions of ``target.program(problem)``: the policy's, and a better one.
    proven : bool
        Whether the other one is said to be optimal.
    """

    target: Target
    problem: ProblemData
    schedule: Any
    other: Any
    proven: bool

    @property
    def cost(self) -> int:
        """What the policy's schedule costs, in the integers of the program."""
        return self.target.program(self.problem).objective_value(self.schedule)

    @property
    def least(self) -> int:
        """What the other schedule costs."""
        return self.target.program(self.problem).objective_value(self.other)

    @property
    def ratio(self) -> Fraction | None:
        """Cost over the other's; None if only the latter is 0, and 1 if both are."""
        cost, least = self.cost, self.least
        if least == 0:
            return None if cost else Fraction(1)
        return Fraction(cost, least)

    def violations(self) -> dict[str, int]:
        """Return what is wrong with it: empty for a valid certificate.

        Constraints that the schedules break, under ``policy.`` and ``other.``;
        ``policy.schedule``, 1 if the policy, asked again, does something else; ``other.proven``:
        by how much the other schedule costs more than the policy's, though it is said to be
        optimal.
        """
        program = self.target.program(self.problem)
        found = {f"policy.{k}": v for k, v in program.violations(self.schedule).items()}
        found |= {f"other.{k}": v for k, v in program.violations(self.other).items()}
        if self.target.schedule(self.problem) != self.schedule:
            found["policy.schedule"] = 1
        if self.proven and not found and self.least > self.cost:
            found["other.proven"] = self.least - self.cost
        return found

    def to_mapping(self) -> dict[str, Any]:
        """Return it as a JSON document."""
        ratio = self.ratio
        return {
            "policy": self.target.name,
            "problem": self.problem.to_mapping(),
            "policy_schedule": plain(self.schedule),
            "other_schedule": plain(self.other),
            "cost": self.cost,
            "least": self.least,
            "ratio": None if ratio is None else str(ratio),
            "proven": self.proven,
        }


def against(target: Target, problem: ProblemData, other: Any) -> Case:
    """Return a policy beside an unproven schedule, or beside its own if that is better.

    Parameters
    ----------
    target : Target
        The policy.
    problem : ProblemData
        The instance.
    other : object
        A solution of ``target.program(problem)``.
    """
    program, schedule = target.program(problem), target.schedule(problem)
    is_worse = program.objective_value(other) > program.objective_value(schedule)
    return Case(target, problem, schedule, schedule if is_worse else other, proven=False)


def plain(schedule: Any) -> Any:
    """Return a schedule as nested lists."""
    return [plain(part) for part in schedule] if isinstance(schedule, tuple | list) else schedule


#: Cost of a policy and least cost known, both >= 0: a ratio that may be 0/0 or x/0.
Ratio: TypeAlias = tuple[int, int]


def exceeds(ratio: Ratio, other: Ratio | None) -> bool:
    """Whether a ratio is above another; 0/0 counts as 1, x/0 is above all, all is above None."""
    if other is None:
        return True
    (a, b), (c, d) = ((1, 1) if r == (0, 0) else r for r in (ratio, other))
    return a * d > c * b


@dataclass(frozen=True)
class Found:
    """The worst case that a search met.

    Parameters
    ----------
    case : Case
        The first met of those with the largest ratio.
    method : str
        Which search.
    space : str
        What was looked through, in words.
    tried, solved : int
        Instances on which the policy ran, and those of them whose optimum was asked for; a lower
        bound on the optimum settled the others.
    is_maximal : bool
        Whether no instance of the space has a larger ratio: proven by a search that left nothing
        out, as far as the proofs of the optima reach.
    """

    case: Case
    method: str
    space: str
    tried: int
    solved: int
    is_maximal: bool

    def to_mapping(self) -> dict[str, Any]:
        """Return it as a JSON document."""
        return {
            "method": self.method,
            "space": self.space,
            "tried": self.tried,
            "solved": self.solved,
            "is_maximal": self.is_maximal,
            **self.case.to_mapping(),
            "violations": self.case.violations(),
        }
