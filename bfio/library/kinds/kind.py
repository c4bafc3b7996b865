"""What the library asks of a kind of problem: read it, judge a solution, re-derive a bound.

A kind knows problem data, checkers and verifiers of `formulations`, and no solver.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from bfio.library.files import Value, read_value
from formulations.documents import check_keys, check_list
from formulations.errors import InputError, use_one_of
from formulations.fluid import FluidObjective

#: Kind of a certificate that holds nothing: the bound follows from the problem by a formula.
CLOSED_FORM = "closed-form"


@dataclass(frozen=True)
class Judged:
    """What the checker says of a solution.

    Parameters
    ----------
    objective : int or Fraction
        Recomputed from the problem, exactly; scaled as the problem is.
    violations : mapping
        Violated constraints and by how much; empty if it is feasible.
    """

    objective: Value
    violations: Mapping[str, Value]


class Kind(ABC):
    """One kind of problem.

    Attributes
    ----------
    name : str
        As entries name it.
    command : str
        How `bfio` solves a document of it.
    unit : str
        Of objectives.
    minimised : bool
        Whether less is better.
    fluid_program, fluid_objective : str
        What of a fluid problem is written for other solvers, and by which objective; empty for
        other problems.
    """

    name: ClassVar[str]
    command: ClassVar[str]
    unit: ClassVar[str]
    minimised: ClassVar[bool] = True
    fluid_program: ClassVar[str] = ""
    fluid_objective: ClassVar[FluidObjective] = FluidObjective.STAGES

    @abstractmethod
    def read(self, document: Any) -> Any:
        """Return the problem that a document holds.

        Raises
        ------
        InputError
            If it holds none.
        """

    @abstractmethod
    def solution(self, problem: Any, document: Mapping[str, Any]) -> Any:
        """Return the solution that a document holds: an answer with ``--json``, or its fields.

        Raises
        ------
        InputError
            If it holds none.
        """

    @abstractmethod
    def judge(self, problem: Any, solution: Any) -> Judged:
        """Return the objective of a solution and what it violates."""

    @abstractmethod
    def certified_bound(self, problem: Any, certificate: Mapping[str, Any]) -> Value:
        """Return the bound that a certificate proves, derived again from the problem.

        Raises
        ------
        InputError
            If it proves none.
        """

    def program(self, problem: Any) -> Any | None:
        """Return the `Formulation` whose files other solvers read; None if there is none."""
        return None

    def scale(self, problem: Any) -> int:
        """Return how many units of objective and bound make one unit of the problem's own."""
        return 1

    def is_better(self, value: Value, than: Value | None) -> bool:
        """Return whether an objective is better than another; anything is better than none."""
        if than is None:
            return True
        return value < than if self.minimised else value > than

    def is_tighter(self, bound: Value, than: Value | None) -> bool:
        """Return whether a bound says more than another; anything says more than none."""
        if than is None:
            return True
        return bound > than if self.minimised else bound < than


def field_of(document: object, name: str) -> list[Any]:
    """Return the list that a document of a solution has under a name.

    Raises
    ------
    InputError
        If there is none.
    """
    if not isinstance(document, Mapping) or document.get(name) is None:
        raise InputError(name, "missing", f'give a JSON object with "{name}", as --json prints it')
    return check_list(document[name], name)


def integers(
    document: object, name: str, length: int, *, or_none: bool = False
) -> tuple[Any, ...]:
    """Return a field of so many integers (or nulls).

    Raises
    ------
    InputError
        If it is none.
    """
    values = field_of(document, name)
    if len(values) != length:
        raise InputError(name, f"{len(values)} entries", f"give {length}, one per request")
    for i, value in enumerate(values):
        if type(value) is not int and not (or_none and value is None):
            raise InputError(f"{name}[{i}]", "no integer", "write one" + " or null" * or_none)
    return tuple(values)


def fractions_of(values: object, where: str) -> tuple[Fraction, ...]:
    """Return the fractions of a list of texts.

    Raises
    ------
    InputError
        If it is none.
    """
    return tuple(
        Fraction(read_value(value, f"{where}[{i}]"))
        for i, value in enumerate(check_list(values, where))
    )


def check_certificate(certificate: object, known: Mapping[str, tuple[str, ...]]) -> str:
    """Return the kind of a certificate that has the fields of its kind, and no other.

    Parameters
    ----------
    certificate : object
        The document.
    known : mapping
        Fields of each kind, beside ``kind``.

    Raises
    ------
    InputError
        If it is none.
    """
    kind = str(certificate.get("kind")) if isinstance(certificate, Mapping) else ""
    if kind not in known:
        raise InputError("certificate.kind", f"{kind!r}", use_one_of(kind, known))
    check_keys(certificate, "certificate", ("kind", *known[kind]))
    return kind
