"""A policy's schedule compared with a better one: the certificate of a ratio."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, TypeAlias

from formulations.arrays import integer
from formulations.errors import InputError
from formulations.formulation import Formulation
from formulations.problem_data import ProblemData

#: Maximum value of a field of a space.
MAX_FIELD = 10**6
#: Maximum number of requests of a constructed instance.
MAX_REQUESTS = 100_000


def check_counts(space: object, positive: Sequence[str], others: Sequence[str] = ()) -> None:
    """Check that fields are integers within their bounds.

    Parameters
    ----------
    space : object
        A frozen dataclass.
    positive, others : sequence of str
        Fields with minimum 1, and fields with minimum 0.

    Raises
    ------
    InputError
        If a field is out of bounds.
    """
    for name in (*positive, *others):
        least = 1 if name in positive else 0
        found = integer(getattr(space, name), name, minimum=least, maximum=MAX_FIELD)
        object.__setattr__(space, name, found)


def refused_as_random(policy: str) -> InputError:
    """Return the error that refuses a policy with random runs."""
    what = f"{policy} is random, so its worst case depends on the seed"
    return InputError("policy", what, "use a policy that is not random")


class Target(Protocol):
    """A deterministic policy whose ratio is maximized."""

    @property
    def name(self) -> str:
        """Description of the policy."""

    def program(self, problem: Any) -> Formulation[Any, Any, Any]:
        """Return the program that evaluates and bounds schedules of an instance."""

    def schedule(self, problem: Any) -> Any:
        """Return the policy's schedule as a solution of the program."""

    def optimum(self, problem: Any, most: int) -> Any:
        """Return a proven optimum; may be None if no solution costs at most ``most``."""

    def better(self, problem: Any) -> Any:
        """Return a good solution quickly, without proof."""


class Space(Protocol):
    """A bounded set of integer instances."""

    def __str__(self) -> str:
        """Return a description of the instances."""

    def size(self, target: Any) -> int:
        """Return the number of instances, or an upper bound on it."""

    def instances(self, target: Any) -> Iterator[Any]:
        """Yield one instance of each class that is equivalent for a policy."""

    def draw(self, rng: Any) -> Any:
        """Return a random instance."""

    def neighbour(self, problem: Any, rng: Any) -> Any:
        """Return a similar instance."""


@dataclass(frozen=True)
class Case:
    """A policy's schedule and another schedule of the same instance.

    The checker of the program recomputes both costs, so the ratio is a certified lower bound on
    the policy's worst ratio, independent of the search. Optimality of the other schedule is a
    claim of the solver that found it (``proven``).

    Parameters
    ----------
    target : Target
        The policy.
    problem : ProblemData
        The instance.
    schedule, other : object
        Solutions of ``target.program(problem)``: the policy's, and a better one.
    proven : bool
        Whether a solver claims that the other one is optimal.
    """

    target: Target
    problem: ProblemData
    schedule: Any
    other: Any
    proven: bool

    @property
    def cost(self) -> int:
        """Cost of the policy's schedule, in the integers of the program."""
        return self.target.program(self.problem).objective_value(self.schedule)

    @property
    def least(self) -> int:
        """Cost of the other schedule."""
        return self.target.program(self.problem).objective_value(self.other)

    @property
    def ratio(self) -> Fraction | None:
        """Ratio of the costs; None if only the other cost is 0, and 1 if both are 0."""
        cost, least = self.cost, self.least
        if least == 0:
            return None if cost else Fraction(1)
        return Fraction(cost, least)

    def violations(self) -> dict[str, int]:
        """Return the faults of the certificate; empty if the certificate is valid.

        Violated constraints of the schedules have the prefix ``policy.`` or ``other.``.
        ``policy.schedule`` is 1 if the policy now returns another schedule. ``other.proven`` is
        how much a schedule that is claimed to be optimal costs more than the policy's.
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
        """Return the case as a JSON object."""
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
    """Return the case with an unproven schedule, or with the policy's own if that is better.

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


#: Cost of a policy and least known cost, both >= 0: a ratio that may be 0/0 or x/0.
Ratio: TypeAlias = tuple[int, int]


def exceeds(ratio: Ratio, other: Ratio | None) -> bool:
    """Whether a ratio exceeds another; 0/0 counts as 1, x/0 as infinity, None as less than all."""
    if other is None:
        return True
    (a, b), (c, d) = ((1, 1) if r == (0, 0) else r for r in (ratio, other))
    return a * d > c * b


@dataclass(frozen=True)
class Found:
    """The worst case found by a search.

    Parameters
    ----------
    case : Case
        First case found with the largest ratio.
    method : str
        Search method.
    space : str
        Description of the space.
    tried, solved : int
        Number of instances on which the policy ran, and number of those with a computed optimum;
        for the others a lower bound sufficed.
    is_maximal : bool
        Whether no instance of the space has a larger ratio. Proven by a complete search, assuming
        that the proofs of the optima are correct.
    """

    case: Case
    method: str
    space: str
    tried: int
    solved: int
    is_maximal: bool

    def to_mapping(self) -> dict[str, Any]:
        """Return the result as a JSON object."""
        names = ("method", "space", "tried", "solved", "is_maximal")
        found = {name: getattr(self, name) for name in names} | self.case.to_mapping()
        return found | {"violations": self.case.violations()}


#: Receives, on the way, a function that returns the worst case found so far.
Watch: TypeAlias = Callable[[Callable[[], Found]], None]


def unwatched(found: Callable[[], Found]) -> None:
    """Discard what a search has found so far."""
